"""The frame that every service process shares: arguments, logs, health, HTTP, error answers."""
