-- held_out(task_id, share := 0.25): true for tasks in the share that is kept for evaluation.
--
-- Train on `NOT held_out(task_id)` and evaluate on `held_out(task_id)`. The split is by task, so
-- that no attempt is evaluated at a task whose other attempts were trained on. It depends on the id
-- of the task alone and never changes, and a smaller share is part of a larger one. False without a
-- task id.
CREATE MACRO held_out(task_id, share := 0.25) AS
    coalesce(
        ('0x' || left(sha256(CAST(task_id AS VARCHAR)), 8))::UBIGINT < share * 4294967296, false
    );
