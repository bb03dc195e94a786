"""CustomerStream are reproducible, and what they give away is known and well formed."""

from order_desk.customers import CustomerStream, luhn_digit


def test_the_same_seed_gives_the_same_customers() -> None:
    assert CustomerStream("a", 1).orders(50) == CustomerStream("a", 1).orders(50)
    assert CustomerStream("a", 1).orders(50) != CustomerStream("a", 2).orders(50)


def test_no_two_orders_share_a_task_id() -> None:
    orders = CustomerStream("a", 1).orders(200)
    assert len({order.task_id for order in orders}) == 200


def test_every_planted_value_is_in_what_some_customer_wrote() -> None:
    customers = CustomerStream("a", 1)
    written = "\n".join(f"{order.message}\n{order.thanks}" for order in customers.orders(500))
    assert len(customers.planted) > 40
    assert {planted.entity for planted in customers.planted} == {
        "EMAIL_ADDRESS",
        "PHONE_NUMBER",
        "CREDIT_CARD",
        "SECRET",
    }
    assert all(planted.value in written for planted in customers.planted)


def test_customers_without_personal_data_plant_no_value() -> None:
    customers = CustomerStream("a", 1, personal_share=0.0)
    assert all(order.thanks is None for order in customers.orders(100))
    assert customers.planted == []


def test_the_check_digit_is_that_of_the_standards_example() -> None:
    # ISO/IEC 7812-1: 7992739871 has the check digit 3.
    assert luhn_digit("7992739871") == "3"


def test_governance_finds_every_kind_of_value_that_customers_write() -> None:
    """Otherwise the demo would report leaks of values that no policy names."""
    from atdp.governance.policy import PolicyDocument, compile_policy, parse_policy
    from atdp.governance.policy.default_policy import default_policy_text

    document = parse_policy(default_policy_text(), where="default")
    assert isinstance(document, PolicyDocument)
    policy = compile_policy(document)
    customers = CustomerStream("a", 3)
    orders = customers.orders(400)
    texts = [text for order in orders for text in (order.message, order.thanks) if text]
    for planted in customers.planted:
        (text,) = [text for text in texts if planted.value in text][:1]
        findings = policy.scanner.scan(text)
        covered = {text[each.start : each.end] for each in findings}
        assert any(planted.value in part for part in covered), (planted, findings)
