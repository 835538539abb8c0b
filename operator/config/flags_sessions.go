package config

import "time"

// sessionSettings say how sessions of demand mode are kept.
var sessionSettings = []setting{
	duration("demand-reconnect-initial-backoff", "500ms", "first pause before a session with a shard is opened again; it doubles", func(s *Settings) *time.Duration { return &s.Demand.Sessions.InitialBackoff }, 10*time.Millisecond, time.Minute),
	duration("demand-reconnect-max-backoff", "30s", "longest such pause, and the one after a refusal", func(s *Settings) *time.Duration { return &s.Demand.Sessions.MaxBackoff }, 100*time.Millisecond, time.Hour),
	number("demand-outbox-capacity", "256", "answers to a shard that wait to be sent; further ones are dropped, and the shard asks again", func(s *Settings) *int { return &s.Demand.Sessions.Outbox }, 1, 100000),
	number("demand-dispatch-concurrency", "32", "messages of one shard that are worked on at once", func(s *Settings) *int { return &s.Demand.Sessions.Dispatch }, 1, 1000),
	number("demand-max-message", "4194304", "bytes of a message to a shard, at most: a larger roll-up goes in parts. Lower it where something between the operator and the servers takes less; servers take no more than 4194304", func(s *Settings) *int { return &s.Demand.Sessions.MaxMessage }, 1<<20, 4<<20),
	duration("demand-keepalive-interval", "20s", "how often a session that is silent is probed", func(s *Settings) *time.Duration { return &s.Demand.Sessions.KeepaliveInterval }, 10*time.Second, time.Hour),
	duration("demand-keepalive-timeout", "10s", "how long such a probe may stay without an answer", func(s *Settings) *time.Duration { return &s.Demand.Sessions.KeepaliveTimeout }, time.Second, 10*time.Minute),
	duration("demand-default-drain-grace", "30s", "time for a drain for which the shard names none", func(s *Settings) *time.Duration { return &s.Demand.Sessions.DrainGrace }, time.Second, 24*time.Hour),
	toggle("reclaim-fit-check", true, "refuse to give a Node back as surplus whose Pods find no other place", func(s *Settings) *bool { return &s.Demand.Reclaim.FitCheck }),
	toggle("foreign-annotations", true, "annotations of Karpenter and of the cluster autoscaler by which a Pod or a Node is not to be disturbed count as nstance.dev/do-not-evict and nstance.dev/do-not-reclaim do", func(s *Settings) *bool { return &s.Demand.Reclaim.ForeignAnnotations }),
	rate("demand-kube-api-qps", "200", "calls to the API server in a second, over time, that write what the shards say and acknowledge CapacityRequests", func(s *Settings) *float32 { return &s.Demand.Sessions.QPS }),
	number("demand-kube-api-burst", "400", "such calls at once", func(s *Settings) *int { return &s.Demand.Sessions.Burst }, 1, 100000),
}

// rollupSettings say how what the cluster needs is added up and sent.
var rollupSettings = []setting{
	duration("demand-rollup-interval", "10s", "how often each shard is told what the cluster needs", func(s *Settings) *time.Duration { return &s.Demand.Rollups.Interval }, 100*time.Millisecond, 10*time.Minute),
	duration("demand-rollup-min-interval", "1s", "time from a change to the message with it, at most; where no change follows for a fifth of that, it is sent then. 0: changes wait for the interval", func(s *Settings) *time.Duration { return &s.Demand.Rollups.MinInterval }, 0, 10*time.Minute),
	number("demand-acknowledge-concurrency", "16", "CapacityRequests that are acknowledged at once", func(s *Settings) *int { return &s.Demand.Rollups.Acknowledgements }, 1, 1000),
	toggle("demand-count-foreign-nodes", false, "count Pods on Nodes that are no machines of a shard, too: then machines are bought for them", func(s *Settings) *bool { return &s.Demand.Rollups.CountForeign }),
	choice("unit-classes", "pow2", "whether what Pods ask for is told apart by its size: pow2 (a class for each doubling of cpu and memory) or off", func(s *Settings) *UnitClasses { return &s.Demand.Rollups.UnitClasses }, UnitClassesPow2, UnitClassesOff),
	choice("daemonset-overhead", "auto", "how the shards learn what each machine carries for DaemonSets: auto (the operator tells them) or template (what is reserved in their configuration is all)", func(s *Settings) *Overhead { return &s.Demand.Rollups.Overhead }, OverheadAuto, OverheadTemplate),
	toggle("stuck-pod-surcharge", true, "ask for capacity of their own for Pods that stay unschedulable although there is enough", func(s *Settings) *bool { return &s.Demand.Rollups.Surcharge }),
}
