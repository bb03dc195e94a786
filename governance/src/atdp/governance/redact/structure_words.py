"""Words that say what kind of value stands there, and nothing about the value.

They stay as they are in a surrogate, so that a street remains a street and `credit_card_4421486`
the id of a credit card. All are compared in lower case.
"""

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NAME_WORDS: Final = _words("mr mrs ms miss mx dr prof sir madam jr sr ii iii iv")
ORGANIZATION_WORDS: Final = _words("inc llc ltd corp co gmbh ag plc kg sa bv of the and")

STREET_WORDS: Final = _words(
    "street st avenue ave av boulevard blvd road rd lane ln drive dr court ct circle cir place pl "
    "terrace ter trail trl way parkway pkwy highway hwy route rte square sq "
    "n s e w ne nw se sw north south east west northeast northwest southeast southwest"
)
"""Kinds of streets, and directions. A street that has no other word keeps none but its last."""
UNIT_WORDS: Final = _words("suite ste apartment apt unit floor fl room rm po p o box")

PHONE_WORDS: Final = _words("tel telephone phone mobile cell fax ext extension x call")
DATE_WORDS: Final = _words(
    "monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun "
    "at of on the am pm t z utc gmt"
)
AGE_WORDS: Final = _words("year years yr yrs month months week weeks day days old yo y o age aged")
ID_WORDS: Final = _words(
    "credit debit gift card paypal bank account acct wallet payment pm method source certificate "
    "reservation booking order user usr customer cust client member login id no nr number num ref "
    "case ticket invoice voucher apple google pay"
)
STRUCTURE_WORDS: Final = (
    NAME_WORDS | ORGANIZATION_WORDS | STREET_WORDS | UNIT_WORDS | PHONE_WORDS | DATE_WORDS
    | AGE_WORDS | ID_WORDS
)  # fmt: skip
"""Words of structure of any value."""
