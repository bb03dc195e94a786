from dataclasses import replace

from order_desk.online_settings import OnlineDemoSettings


def test_users_come_for_a_shorter_time_where_the_start_took_longer() -> None:
    settings = OnlineDemoSettings(longest_s=440.0, last_user_s=560.0)
    assert settings.begun_after(100.0) == settings
    assert settings.begun_after(150.0) == replace(settings, longest_s=410.0)
    assert settings.begun_after(900.0).longest_s == 1.0
