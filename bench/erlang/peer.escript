#!/usr/bin/env escript
%%! +S 2:2 -noshell
%% The actor workloads of pleach-bench in Erlang, as the same JSON lines, without a ratio.
%%
%%     apt-get install erlang-base
%%     escript bench/erlang/peer.escript
%%
%% A restart is that of OTP's `supervisor`, and an actor that is restarted is a `gen_server`. Other
%% actors are plain processes. The median of the rounds counts.
-mode(compile).

-define(ROUNDS, 10).
-define(CROWD, 1000).
-define(RING, 1000).

main([]) ->
    logger:set_primary_config(level, none),
    measure("actor.tell_unbounded_main", 200000, fun(Ops) -> tell(Ops, 1) end),
    measure("actor.tell_4senders_main", 200000, fun(Ops) -> tell(Ops, 4) end),
    measure("actor.ask", 50000, fun ask/1),
    measure("actor.ring1000_named", 100000, fun ring/1),
    measure("actor.spawn1000", 10000, fun(Ops) -> spawn_crowd(Ops, false) end),
    measure("actor.spawn1000_named", 10000, fun(Ops) -> spawn_crowd(Ops, true) end),
    measure("actor.restart_error_awaited", 2000, fun(Ops) -> restart(Ops, stop) end),
    measure("actor.restart_panic_awaited", 2000, fun(Ops) -> restart(Ops, crash) end).

measure(Workload, Ops, Run) ->
    Samples = lists:sort([sample(Ops, Run) || _ <- lists:seq(1, ?ROUNDS)]),
    Median = (lists:nth(?ROUNDS div 2, Samples) + lists:nth(?ROUNDS div 2 + 1, Samples)) / 2,
    io:format("{\"workload\":\"~s\",\"peer\":\"erlang\",\"ns_per_op\":~.4f,\"ratio_to_floor\":null}~n", [Workload, Median]).

%% Each sample has a process of its own, with an empty mailbox and heap.
sample(Ops, Run) ->
    {Pid, Ref} = spawn_monitor(fun() ->
        Start = erlang:monotonic_time(nanosecond),
        Run(Ops),
        exit({took, erlang:monotonic_time(nanosecond) - Start})
    end),
    receive {'DOWN', Ref, process, Pid, {took, Took}} -> Took / Ops end.

tell(Ops, Senders) ->
    Me = self(),
    Share = Ops div Senders,
    Receiver = spawn_link(fun() -> count(Share * Senders), Me ! handled end),
    [spawn_link(fun() -> push(Receiver, Share) end) || _ <- lists:seq(1, Senders)],
    receive handled -> ok end.

count(0) -> ok;
count(N) -> receive {_, _} -> count(N - 1) end.

push(_, 0) -> ok;
push(To, N) -> To ! {N, N}, push(To, N - 1).

ask(Ops) ->
    Receiver = spawn_link(fun answer/0),
    [question(Receiver, N) || N <- lists:seq(1, Ops)],
    unlink(Receiver),
    exit(Receiver, kill).

answer() -> receive {From, Ref, N} -> From ! {Ref, N + 1}, answer() end.

question(To, N) ->
    Ref = monitor(process, To),
    To ! {self(), Ref, N},
    receive {Ref, Answer} -> demonitor(Ref, [flush]), Answer end.

ring(Hops) ->
    Me = self(),
    First = spawn_link(fun() -> receive {next, Next} -> pass(Next, Me) end end),
    Last = lists:foldl(fun(N, Next) ->
        Member = spawn_link(fun() -> pass(Next, Me) end),
        register(name(N), Member),
        Member
    end, First, lists:seq(2, ?RING)),
    First ! {next, Last},
    First ! Hops,
    receive done -> ok end,
    [unregister(name(N)) || N <- lists:seq(2, ?RING)].

pass(Next, Owner) ->
    receive
        0 -> Owner ! done, pass(Next, Owner);
        Left -> Next ! Left - 1, pass(Next, Owner)
    end.

name(N) -> list_to_atom("actor-" ++ integer_to_list(N)).

spawn_crowd(Ops, Named) ->
    [crowd(Named) || _ <- lists:seq(1, Ops div ?CROWD)].

crowd(Named) ->
    Actors = [begin
        {Pid, Ref} = spawn_monitor(fun idle/0),
        Named andalso register(name(N), Pid),
        {Pid, Ref}
    end || N <- lists:seq(1, ?CROWD)],
    [Pid ! stop || {Pid, _} <- Actors],
    [receive {'DOWN', Ref, process, Pid, _} -> ok end || {Pid, Ref} <- Actors].

idle() -> receive stop -> ok; _ -> idle() end.

%% The children are processes of `proc_lib`, as every behaviour of OTP.
restart(Ops, How) ->
    Me = self(),
    Start = {proc_lib, start_link, [erlang, apply, [fun() -> fragile(Me) end, []]]},
    Child = #{id => fragile, start => Start, restart => permanent},
    Flags = #{strategy => one_for_one, intensity => 1000000000, period => 1},
    {ok, Supervisor} = supervisor:start_link(supervisor_module(), {Flags, [Child]}),
    fail(Ops, How),
    receive {started, _} -> ok end,
    unlink(Supervisor),
    exit(Supervisor, kill).

fail(0, _) -> ok;
fail(N, How) -> receive {started, Pid} -> Pid ! How, fail(N - 1, How) end.

fragile(Owner) ->
    proc_lib:init_ack({ok, self()}),
    Owner ! {started, self()},
    receive
        stop -> exit(failed);
        crash -> erlang:error(failed)
    end.

%% A supervisor takes its specification from a module, which a script has to compile first.
supervisor_module() ->
    Forms = [
        {attribute, 1, module, bench_supervisor},
        {attribute, 1, export, [{init, 1}]},
        {function, 1, init, 1, [{clause, 1, [{var, 1, 'Spec'}], [], [{tuple, 1, [{atom, 1, ok}, {var, 1, 'Spec'}]}]}]}
    ],
    {ok, Module, Binary} = compile:forms(Forms),
    {module, Module} = code:load_binary(Module, "bench_supervisor", Binary),
    Module.
