-- held_out(task_id, share := 0.25): whether a task belongs to the share that is kept for evaluation.
--
-- Train on `NOT held_out(task_id)`, evaluate on `held_out(task_id)`. The split goes by task, so that no attempt at a task is
-- evaluated whose other attempts were trained on; it depends on the task's id alone and never changes, and a smaller share
-- lies within a larger one. Without a task id: not held out.
CREATE MACRO held_out(task_id, share := 0.25) AS
    coalesce(('0x' || left(sha256(CAST(task_id AS VARCHAR)), 8))::UBIGINT < share * 4294967296, false);
