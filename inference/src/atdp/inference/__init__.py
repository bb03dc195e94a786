"""Client of SGLang servers, and the embedded inference worker."""
