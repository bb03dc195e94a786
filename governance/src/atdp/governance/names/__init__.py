"""The names model: people, places, addresses and organisations in prose, without downloads."""

from atdp.governance.names.name_model import NameModel, shipped_model
from atdp.governance.names.network import TagWeights
from atdp.governance.names.word_features import WordLists
from atdp.governance.names.words import Word, split_words

__all__ = ["NameModel", "TagWeights", "Word", "WordLists", "shipped_model", "split_words"]
