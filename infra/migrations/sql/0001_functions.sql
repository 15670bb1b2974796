-- The five functions a box may execute, and nothing else (DELIVERY, "The five functions").
-- They act on session_user's own box only. All times are clock_timestamp(), the database's clock.

do $$
begin
    if not exists (select from pg_roles where rolname = 'bv3_box') then
        create role bv3_box nologin;
    end if;
exception
    when duplicate_object or unique_violation then null; -- another database of this cluster was quicker
end
$$;

create schema box;
revoke all on schema public from public;
revoke all on schema box from public;
grant usage on schema box to bv3_box;

create function box.own_row() returns public.boxes
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    mine public.boxes;
begin
    select * into mine from public.boxes where login = session_user;
    if not found then
        raise exception 'login % speaks for no box', session_user using errcode = '42501';
    end if;
    return mine;
end
$$;

-- 1. register: a new lease, or who holds it. `predecessor_dead` is the caller's word that the holder on
-- this same machine is dead; the word of another machine counts for nothing.
create function box.register(
    p_machine text, p_boot text, p_namespace text, p_pid integer, p_predecessor_dead boolean, p_facts jsonb
) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    mine public.boxes;
    fresh uuid := gen_random_uuid();
begin
    mine := box.own_row();
    select * into mine from public.boxes where name = mine.name for update;
    if mine.token is not null
        and mine.last_beat_at > clock_timestamp() - interval '30 seconds'
        and not (p_predecessor_dead and mine.machine = p_machine)
    then
        return jsonb_build_object('answer', 'held', 'machine', mine.machine, 'boot', mine.boot,
            'namespace', mine.namespace, 'pid', mine.pid, 'since', mine.registered_at,
            'last_beat_s', round(extract(epoch from clock_timestamp() - mine.last_beat_at)::numeric, 1));
    end if;
    update public.boxes set token = fresh, machine = p_machine, boot = p_boot, namespace = p_namespace,
        pid = p_pid, registered_at = clock_timestamp(), last_beat_at = clock_timestamp(), beats = 0,
        phase = 'starting', facts = p_facts
        where name = mine.name;
    insert into public.box_events (box, kind, facts)
        values (mine.name, 'registered', jsonb_build_object('machine', p_machine, 'pid', p_pid));
    return jsonb_build_object('answer', 'ok', 'token', fresh, 'box', mine.name);
end
$$;

-- 2. beat: the box lives, says what it does, and hears what to do.
create function box.beat(p_token uuid, p_phase text, p_facts jsonb) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    mine public.boxes;
    event jsonb;
    named bigint[];
    stored jsonb;
    missing jsonb;
    unknown jsonb;
begin
    mine := box.own_row();
    if mine.token is distinct from p_token then
        return jsonb_build_object('answer', 'stale');
    end if;
    update public.boxes set last_beat_at = clock_timestamp(), beats = beats + 1, phase = p_phase,
        facts = facts || (p_facts - 'events' - 'open' - 'unacknowledged')
        where name = mine.name and token = p_token;
    if not found then
        return jsonb_build_object('answer', 'stale');
    end if;
    for event in select * from jsonb_array_elements(coalesce(p_facts -> 'events', '[]')) limit 100 loop
        insert into public.box_events (box, kind, facts)
            values (mine.name, left(coalesce(event ->> 'kind', 'unnamed'), 64), event - 'kind');
    end loop;
    named := array(select value::bigint from jsonb_array_elements_text(coalesce(p_facts -> 'open', '[]')));
    update public.attempts set unnamed_beats = 0
        where box = mine.name and state = 'started' and id = any (named) and unnamed_beats > 0;
    update public.attempts set unnamed_beats = unnamed_beats + 1
        where box = mine.name and state = 'started' and id <> all (named);
    select coalesce(jsonb_agg(distinct r.sha256), '[]') into stored from public.records r
        where r.box = mine.name and r.sha256 in
            (select jsonb_array_elements_text(coalesce(p_facts -> 'unacknowledged', '[]')));
    select coalesce(jsonb_agg(sha256), '[]') into missing from public.box_notes
        where box = mine.name and kind = 'missing_evidence';
    select coalesce(jsonb_agg(sha256), '[]') into unknown from public.box_notes
        where box = mine.name and kind = 'unknown_record';
    return jsonb_build_object('answer', case when mine.drain then 'drain'
            when mine.hold_reason is not null then 'hold' else 'ok' end,
        'reason', mine.hold_reason, 'stored', stored, 'missing', missing, 'unknown', unknown,
        -- sent twice, and not heard for ten seconds after the second time
        'deaf', exists (select from public.dispatches d where d.box = mine.name and d.state = 'open'
            and cardinality(d.sent_at) > 1
            and d.sent_at[cardinality(d.sent_at)] < clock_timestamp() - interval '10 seconds'));
end
$$;

-- 3. start: the one conditional UPDATE a run begins by. The sweep's and the box's rows are locked first,
-- so that after a cancel or a loss has returned, no start can win.
create function box.start(p_run bigint, p_dispatch integer, p_token uuid, p_nonce text) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    mine public.boxes;
    sweep public.sweeps;
    run public.site_runs;
    handed public.dispatches;
    made public.attempts;
begin
    if length(p_nonce) < 16 or length(p_nonce) > 128 then
        raise exception 'a nonce has 16 to 128 characters' using errcode = '22023';
    end if;
    mine := box.own_row();
    select s.* into sweep from public.sweeps s
        where s.id = (select r.sweep_id from public.site_runs r where r.id = p_run) for share;
    select * into mine from public.boxes where name = mine.name for share;
    if sweep.id is null then
        return jsonb_build_object('answer', 'no', 'reason', 'no such run');
    end if;
    if mine.token is distinct from p_token then
        return jsonb_build_object('answer', 'no', 'reason', 'stale token');
    end if;
    -- The same nonce gets the same yes, while the attempt is open: a reply may have been lost.
    select * into made from public.attempts where nonce = p_nonce;
    if found then
        if made.state = 'started' and made.token = p_token and made.run_id = p_run then
            return jsonb_build_object('answer', 'yes', 'attempt', made.id, 'attempt_no', made.number,
                'payload', made.payload);
        end if;
        return jsonb_build_object('answer', 'no', 'reason', 'this attempt is over');
    end if;
    if sweep.cancelled_at is not null or sweep.paused_at is not null or sweep.halted_at is not null then
        return jsonb_build_object('answer', 'no', 'reason', 'the sweep is stopped');
    end if;
    if sweep.deadline is not null and sweep.deadline <= clock_timestamp() then
        return jsonb_build_object('answer', 'no', 'reason', 'the deadline has passed');
    end if;
    if mine.hold_reason is not null or mine.drain then
        return jsonb_build_object('answer', 'no', 'reason', 'the box is held');
    end if;
    update public.dispatches set state = 'started', started_at = clock_timestamp()
        where run_id = p_run and number = p_dispatch and box = mine.name and state = 'open'
        returning * into handed;
    if not found then
        return jsonb_build_object('answer', 'no', 'reason', 'not yours to start');
    end if;
    update public.site_runs set state = 'started', started_at = clock_timestamp()
        where id = p_run and state = 'dispatched' returning * into run;
    if not found then
        raise exception 'run % has an open dispatch but is not dispatched', p_run;
    end if;
    insert into public.attempts (run_id, number, dispatch_id, box, token, nonce, payload)
        values (p_run, (select coalesce(max(number), 0) + 1 from public.attempts where run_id = p_run),
            handed.id, mine.name, p_token, p_nonce,
            -- five of the letters and digits of a random uuid: fresh for each attempt, so that an old
            -- draft on the page can never pass for this run
            replace(run.task ->> 'payload', '{nonce}',
                substr(translate(gen_random_uuid()::text, '-', ''), 1, 5)))
        returning * into made;
    return jsonb_build_object('answer', 'yes', 'attempt', made.id, 'attempt_no', made.number,
        'payload', made.payload);
end
$$;

-- 4. step: what phase the attempt is in, and its end.
create function box.step(p_attempt bigint, p_token uuid, p_kind text, p_facts jsonb) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    mine public.boxes;
    changed public.attempts;
begin
    mine := box.own_row();
    if mine.token is distinct from p_token then
        return jsonb_build_object('answer', 'stale');
    end if;
    if p_kind = 'phase' then
        update public.attempts set phase = left(p_facts ->> 'phase', 32), phase_at = clock_timestamp()
            where id = p_attempt and box = mine.name and token = p_token and state = 'started'
            returning * into changed;
    elsif p_kind = 'finished' then
        -- also one of an earlier lease: the record is on this box's disk, the farm was away when it was written
        update public.attempts set state = 'finished', finished_at = clock_timestamp()
            where id = p_attempt and box = mine.name and state = 'started'
            returning * into changed;
        if found then
            update public.dispatches set state = 'done', ended_at = clock_timestamp()
                where id = changed.dispatch_id and state = 'started';
        end if;
    else
        raise exception 'no step of kind %', p_kind using errcode = '22023';
    end if;
    return jsonb_build_object('answer', case when changed.id is null then 'over' else 'ok' end);
end
$$;

-- 5. released: handed back before any start; costs no attempt.
create function box.released(p_run bigint, p_dispatch integer, p_token uuid, p_reason text, p_facts jsonb)
returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    mine public.boxes;
begin
    mine := box.own_row();
    if mine.token is distinct from p_token then
        return jsonb_build_object('answer', 'stale');
    end if;
    update public.dispatches set state = 'released', ended_at = clock_timestamp(), reason = left(p_reason, 500)
        where run_id = p_run and number = p_dispatch and box = mine.name and state = 'open';
    if not found then
        return jsonb_build_object('answer', 'over');
    end if;
    update public.site_runs set state = 'planned' where id = p_run and state = 'dispatched';
    insert into public.box_events (box, kind, run_id, facts)
        values (mine.name, 'released', p_run, jsonb_build_object('reason', left(p_reason, 500)) || p_facts);
    return jsonb_build_object('answer', 'ok');
end
$$;

revoke all on all functions in schema box from public;
grant execute on function box.register(text, text, text, integer, boolean, jsonb) to bv3_box;
grant execute on function box.beat(uuid, text, jsonb) to bv3_box;
grant execute on function box.start(bigint, integer, uuid, text) to bv3_box;
grant execute on function box.step(bigint, uuid, text, jsonb) to bv3_box;
grant execute on function box.released(bigint, integer, uuid, text, jsonb) to bv3_box;
