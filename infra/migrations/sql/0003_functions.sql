-- beat and start as they are from here on: a box is held by rows, says so itself when it is drained, registers
-- its check of the markers, and answers for its health. What a beat carries comes from a machine that renders
-- untrusted pages: a part of a wrong type or size is left out and told by an event; the beat itself counts.

-- What keeps the box from its work, oldest first.
create function box.list_holds(p_box text) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select coalesce(jsonb_agg(jsonb_build_object('id', id, 'kind', kind, 'reason', reason, 'since', held_at)
        order by held_at, id), '[]')
    from public.box_holds where box = p_box and lifted_at is null
$$;

-- The latest check of this catalogue at the revision that the box runs; a row of nulls without one. A tree with
-- changes has one name for many contents: there only a check of this very registration counts.
create function box.find_check(p_box public.boxes, p_catalogue text) returns public.marker_checks
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select c from public.marker_checks c
    where c.product_revision = p_box.facts ->> 'revision' and c.catalogue_sha256 = p_catalogue
        and (p_box.facts ->> 'tree_clean' is distinct from 'false' or c.token = p_box.token)
    order by c.id desc limit 1
$$;

-- Whether that check found no dead marker.
create function box.is_verified(p_box public.boxes, p_catalogue text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select coalesce((select c.id is not null and coalesce(c.facts -> 'dead', '{}') = '{}'
        from box.find_check(p_box, p_catalogue) c), false)
$$;

-- The box's own word: {"drained": reason}, or {} when it takes runs again. What others hold it for stays.
create function box.take_holds(p_box text, p_holds jsonb) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    said text;
    changed bigint;
begin
    if p_holds ? 'drained' then
        if jsonb_typeof(p_holds -> 'drained') <> 'string' then
            return false;
        end if;
        said := left(p_holds ->> 'drained', 500);
        insert into public.box_holds (box, kind, reason, held_by) values (p_box, 'drained', said, 'box')
            on conflict (box, kind) where lifted_at is null do nothing
            returning id into changed;
        if changed is not null then
            insert into public.box_events (box, kind, facts) values (p_box, 'hold_placed',
                jsonb_build_object('hold', changed, 'kind', 'drained', 'reason', said));
        else
            update public.box_holds set reason = said
                where box = p_box and kind = 'drained' and held_by = 'box' and lifted_at is null and reason <> said;
        end if;
        return true;
    end if;
    update public.box_holds set lifted_at = clock_timestamp(), lifted_by = 'box'
        where box = p_box and kind = 'drained' and held_by = 'box' and lifted_at is null
        returning id into changed;
    if changed is not null then
        insert into public.box_events (box, kind, facts) values (p_box, 'hold_lifted',
            jsonb_build_object('hold', changed, 'kind', 'drained'));
    end if;
    return true;
end
$$;

-- A check of the catalogue against what this box runs. Of another revision it is none of its business.
create function box.take_verify(p_box public.boxes, p_verify jsonb) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    part text;
begin
    foreach part in array array['product_revision', 'catalogue_sha256', 'checked_by'] loop
        if jsonb_typeof(p_verify -> part) is distinct from 'string' then
            return false;
        end if;
    end loop;
    foreach part in array array['total', 'alive'] loop
        if jsonb_typeof(p_verify -> part) is distinct from 'number' or p_verify ->> part !~ '^[0-9]{1,5}$' then
            return false;
        end if;
    end loop;
    if (p_verify ->> 'alive')::integer > (p_verify ->> 'total')::integer or (p_verify ->> 'total')::integer = 0
        or p_verify ->> 'catalogue_sha256' !~ '^[0-9a-f]{64}$'
        or jsonb_typeof(p_verify -> 'facts') is distinct from 'object'
        or jsonb_typeof(p_verify -> 'facts' -> 'dead') is distinct from 'object'
        or jsonb_typeof(coalesce(p_verify -> 'facts' -> 'unproven', '{}')) <> 'object'
        or length(p_verify ->> 'product_revision') not between 1 and 100
        or p_verify ->> 'product_revision' is distinct from p_box.facts ->> 'revision'
    then
        return false;
    end if;
    insert into public.marker_checks (product_revision, catalogue_sha256, total, alive, facts, checked_by, box, token)
        values (p_verify ->> 'product_revision', p_verify ->> 'catalogue_sha256', (p_verify ->> 'total')::integer,
            (p_verify ->> 'alive')::integer, p_verify -> 'facts', left(p_verify ->> 'checked_by', 200),
            p_box.name, p_box.token);
    insert into public.box_events (box, kind, facts) values (p_box.name, 'markers_checked',
        jsonb_build_object('revision', p_verify -> 'product_revision', 'total', p_verify -> 'total',
            'alive', p_verify -> 'alive', 'dead', (select coalesce(jsonb_agg(name), '[]')
                from (select name from jsonb_object_keys(p_verify -> 'facts' -> 'dead') name limit 20) first)));
    return true;
end
$$;

-- What came of a health check: one that passed ends the quarantine it was made for, and no other.
create function box.take_health(p_box text, p_health jsonb) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    passed boolean;
    lifted bigint;
begin
    if jsonb_typeof(p_health -> 'hold') is distinct from 'number' or p_health ->> 'hold' !~ '^[0-9]{1,18}$'
        or jsonb_typeof(p_health -> 'passed') is distinct from 'boolean'
    then
        return false;
    end if;
    passed := (p_health ->> 'passed')::boolean;
    if passed then
        update public.box_holds set lifted_at = clock_timestamp(), lifted_by = 'health check',
                note = left(p_health ->> 'detail', 500)
            where id = (p_health ->> 'hold')::bigint and box = p_box and kind = 'quarantined' and lifted_at is null
            returning id into lifted;
    end if;
    insert into public.box_events (box, kind, facts) values (p_box, 'health_check',
        jsonb_build_object('hold', p_health -> 'hold', 'passed', passed, 'lifted', lifted is not null,
            'detail', left(p_health ->> 'detail', 2000)));
    return true;
end
$$;

-- 2. beat: the box lives, says what it does, and hears what to do.
create or replace function box.beat(p_token uuid, p_phase text, p_facts jsonb) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    mine public.boxes;
    heard jsonb := p_facts;
    said jsonb;
    bad text[] := '{}';
    part record;
    event jsonb;
    named bigint[];
    stored jsonb;
    missing jsonb;
    unknown jsonb;
    holds jsonb;
begin
    mine := box.own_row();
    if mine.token is distinct from p_token then
        return jsonb_build_object('answer', 'stale');
    end if;
    if jsonb_typeof(heard) is distinct from 'object' then
        heard := '{}';
        bad := bad || 'facts'::text;
    end if;
    for part in select * from (values ('events', 'array', 4000000), ('open', 'array', 100000),
        ('unacknowledged', 'array', 4000000), ('holds', 'object', 10000), ('verify', 'object', 200000),
        ('health', 'object', 20000)) as known (name, kind, most)
    loop
        if jsonb_typeof(heard -> part.name) = 'null' then
            heard := heard - part.name;
        elsif heard ? part.name and (jsonb_typeof(heard -> part.name) <> part.kind
            or length(heard ->> part.name) > part.most)
        then
            heard := heard - part.name;
            bad := bad || part.name;
        end if;
    end loop;
    said := heard - array['events', 'open', 'unacknowledged', 'verify', 'health'];
    if length((mine.facts || said)::text) > 100000 then
        said := '{}';
        bad := bad || 'facts'::text;
    end if;
    update public.boxes b set last_beat_at = clock_timestamp(), beats = b.beats + 1,
        phase = left(coalesce(p_phase, 'unnamed'), 32), facts = b.facts || said
        where b.name = mine.name and b.token = p_token
        returning * into mine;
    if not found then
        return jsonb_build_object('answer', 'stale');
    end if;
    if jsonb_array_length(coalesce(heard -> 'events', '[]')) > 100 then
        bad := bad || 'events'::text;
    end if;
    for event in select * from jsonb_array_elements(coalesce(heard -> 'events', '[]')) limit 100 loop
        if jsonb_typeof(event) <> 'object' or length(event::text) > 20000 then
            bad := bad || 'events'::text;
        else
            insert into public.box_events (box, kind, facts)
                values (mine.name, left(coalesce(event ->> 'kind', 'unnamed'), 64), event - 'kind');
        end if;
    end loop;
    -- a null among them would make `<> all` unknown, and no attempt would ever be missed
    named := array(select value::bigint from jsonb_array_elements_text(coalesce(heard -> 'open', '[]'))
        where value ~ '^[0-9]{1,18}$');
    if cardinality(named) < jsonb_array_length(coalesce(heard -> 'open', '[]')) then
        bad := bad || 'open'::text;
    end if;
    update public.attempts set unnamed_beats = 0
        where box = mine.name and state = 'started' and id = any (named) and unnamed_beats > 0;
    update public.attempts set unnamed_beats = unnamed_beats + 1
        where box = mine.name and state = 'started' and id <> all (named);
    if heard ? 'holds' and not box.take_holds(mine.name, heard -> 'holds') then
        bad := bad || 'holds'::text;
    end if;
    if heard ? 'verify' and not box.take_verify(mine, heard -> 'verify') then
        bad := bad || 'verify'::text;
    end if;
    if heard ? 'health' and not box.take_health(mine.name, heard -> 'health') then
        bad := bad || 'health'::text;
    end if;
    -- once a minute: a box that says nonsense in each beat shall not fill the table
    if bad <> '{}' and not exists (
        select from (select kind, at from public.box_events where box = mine.name order by id desc limit 250) latest
        where latest.kind = 'beat_part_ignored' and latest.at > clock_timestamp() - interval '1 minute')
    then
        insert into public.box_events (box, kind, facts) values (mine.name, 'beat_part_ignored',
            jsonb_build_object('parts', (select jsonb_agg(distinct name) from unnest(bad) name)));
    end if;
    select coalesce(jsonb_agg(distinct r.sha256), '[]') into stored from public.records r
        where r.box = mine.name and r.sha256 in
            (select jsonb_array_elements_text(coalesce(heard -> 'unacknowledged', '[]')));
    select coalesce(jsonb_agg(sha256), '[]') into missing from public.box_notes
        where box = mine.name and kind = 'missing_evidence';
    select coalesce(jsonb_agg(sha256), '[]') into unknown from public.box_notes
        where box = mine.name and kind = 'unknown_record';
    holds := box.list_holds(mine.name);
    return jsonb_build_object(
        'answer', case when holds = '[]' then 'ok'
            when jsonb_array_length(holds) = 1 and holds -> 0 ->> 'kind' = 'drained' then 'drain' else 'hold' end,
        'reason', holds -> 0 ->> 'reason', 'holds', holds, 'now', clock_timestamp(),
        'verified', box.is_verified(mine, mine.facts ->> 'catalogue_sha256'),
        'stored', stored, 'missing', missing, 'unknown', unknown,
        -- sent twice, and not heard for ten seconds after the second time
        'deaf', exists (select from public.dispatches d where d.box = mine.name and d.state = 'open'
            and cardinality(d.sent_at) > 1
            and d.sent_at[cardinality(d.sent_at)] < clock_timestamp() - interval '10 seconds'));
end
$$;

-- 3. start: the one conditional UPDATE a run begins by. The sweep's and the box's rows are locked first,
-- so that after a cancel, a hold or a loss has returned, no start can win.
create or replace function box.start(p_run bigint, p_dispatch integer, p_token uuid, p_nonce text) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    mine public.boxes;
    sweep public.sweeps;
    run public.site_runs;
    handed public.dispatches;
    made public.attempts;
    held text;
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
    select kind || ': ' || reason into held from public.box_holds
        where box = mine.name and lifted_at is null order by held_at, id limit 1;
    if found then
        return jsonb_build_object('answer', 'no', 'reason', left('the box is held, ' || held, 500));
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

-- the new ones are for the two above alone
revoke all on all functions in schema box from public;
