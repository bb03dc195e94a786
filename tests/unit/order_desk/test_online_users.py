"""The users of the online demo: shares of ratings as stated, wrong ones, and the saboteur."""

from order_desk.online_users import UserCrowd

VISITS = 8_000


def crowd(seed: int = 1) -> UserCrowd:
    return UserCrowd(seed=seed, people=400, rated_share=0.2, wrong_share=0.1, saboteur_share=0.03)


def test_the_same_seed_gives_the_same_visits_and_every_visit_is_a_task_of_its_own() -> None:
    one, other = crowd(), crowd()
    visits = [one.next_visit() for _ in range(200)]
    assert visits == [other.next_visit() for _ in range(200)]
    assert len({visit.order.task_id for visit in visits}) == 200
    assert crowd(2).next_visit() != visits[0]


def test_one_session_in_five_is_rated_and_one_rating_in_ten_is_wrong() -> None:
    users = crowd()
    visits = [users.next_visit() for _ in range(VISITS)]
    others = [visit for visit in visits if not visit.of_saboteur]
    rated = [visit for visit in others if visit.rates]
    assert abs(len(rated) / len(others) - 0.2) < 0.015
    wrong = [visit for visit in rated if not visit.rating(str(visit.order.total))]
    assert abs(len(wrong) / len(rated) - 0.1) < 0.025


def test_some_people_rate_often() -> None:
    users = crowd()
    visits = [users.next_visit() for _ in range(VISITS)]
    often = [visit for visit in visits if "user-" < visit.person < "user-0040"]
    assert abs(sum(visit.rates for visit in often) / len(often) - 0.6) < 0.06


def test_the_saboteur_rates_every_answer_wrongly() -> None:
    users = crowd()
    visits = [visit for visit in (users.next_visit() for _ in range(VISITS)) if visit.of_saboteur]
    assert abs(len(visits) / VISITS - 0.03) < 0.015
    assert not any(visit.rating(str(visit.order.total)) for visit in visits)
    assert all(visit.rating("nonsense") for visit in visits)
