package demandsim_test

// scenario is a story with what has to come of it. A bound of most 0 is none at all.
type scenario struct {
	name, plan string
	promise    string         // that is broken where it goes otherwise; E3 if nothing is said
	least      map[string]int // kinds of events, and how often each happens at least
	most       map[string]int // and at most
}

var scenarios = []scenario{
	{
		name: "scale-up-from-zero", plan: "1m set cluster-a tiny web 40",
		least: map[string]int{"provision": 4}, most: map[string]int{"provision": 5, "reclaim": 0, "delete": 0},
	},
	{
		name: "stock-out-then-recovery",
		plan: "set length 1h\n0s room cheap/small/spot/r1 0\n0s room cheap/small/spot/r2 0\n0s room cheap/small/spot/r3 0\n0s room general/small/on-demand/r1 0\n" +
			"0s room general/small/on-demand/r2 0\n0s room general/small/on-demand/r3 0\n0s room general/large/on-demand/r1 0\n0s room general/large/on-demand/r2 0\n" +
			"0s room general/large/on-demand/r3 0\n1m set cluster-a service api 6\n15m room general/small/on-demand/r2 -1",
		least: map[string]int{"failed": 9, "configured": 6}, most: map[string]int{"left": 0},
	},
	{
		name: "cooldown-and-fallback", plan: "set length 1h\n0s script cheap/small/spot/r1 no-capacity\n1m set cluster-a service api 6",
		least: map[string]int{"failed": 1, "configured": 6}, most: map[string]int{"failed": 6},
	},
	{
		name:  "priority-inversion-across-clusters",
		plan:  "set clusters 2\nset cpus 24\nset domain shared\n1m set cluster-a roll low 20\n10m set cluster-b urgent high 9",
		least: map[string]int{"preempt": 2}, most: map[string]int{"preempt": 6},
	},
	{
		name: "equals-take-nothing-from-each-other", promise: "E9",
		plan:  "set clusters 2\nset cpus 24\nset domain shared\n1m set cluster-a roll first 20\n10m set cluster-b roll second 9",
		least: map[string]int{"pending second": 1}, most: map[string]int{"preempt": 0},
	},
	{
		name: "priority-does-not-cross-domains", plan: "set clusters 2\nset cpus 24\n1m set cluster-a roll low 20\n10m set cluster-b urgent high 9",
		most: map[string]int{"preempt": 0},
	},
	{name: "gang-fits", plan: "1m set cluster-a gang train 3", least: map[string]int{"provision": 3}, most: map[string]int{"provision": 3}},
	{name: "gang-never-fits", plan: "set cpus 200\n1m set cluster-a gang train 3", most: map[string]int{"provision": 0}},
	{
		name: "gang-half-fails", plan: "set length 2h\n0s room gpu/gpu8/on-demand/r1 1\n0s room gpu/gpu8/on-demand/r2 1\n1m set cluster-a gang train 2\n50m room gpu/gpu8/on-demand/r2 -1",
		least: map[string]int{"failed": 1},
	},
	{name: "gang-growth", plan: "1m set cluster-a gang train 2\n15m scale cluster-a train 3", least: map[string]int{"provision": 3}, most: map[string]int{"provision": 4}},
	{name: "withdrawal", plan: "1m set cluster-a tiny web 40\n5m drop cluster-a web", least: map[string]int{"left": 4, "gone": 4}},
	{name: "withdrawal-on-demand-machines-idle-longer", plan: "set length 1h\n1m set cluster-a costly web 12\n10m drop cluster-a web", least: map[string]int{"left": 1, "gone": 1}},
	{
		name: "rolling-update-inside-the-delay", plan: "1m set cluster-a roll web 12\n15m roll cluster-a web",
		least: map[string]int{"provision": 3}, most: map[string]int{"provision": 5, "reclaim": 0},
	},
	{name: "sidecars-and-init-containers", plan: "1m set cluster-a sidecar web 8", least: map[string]int{"provision": 5}},
	{name: "unit-class-mix", plan: "1m set cluster-a tiny web 120\n1m set cluster-a huge db 1", least: map[string]int{"provision": 10}, most: map[string]int{"provision": 16}},
	{name: "tainted-group", plan: "1m set cluster-a tiny web 10\n1m set cluster-a gpu infer 9", least: map[string]int{"provision": 3}, most: map[string]int{"provision": 4}},
	{
		name:  "spread-over-three-domains-with-one-empty",
		plan:  "0s room cheap/small/spot/r3 0\n0s room general/small/on-demand/r3 0\n0s room general/large/on-demand/r3 0\n1m set cluster-a spread web 12",
		least: map[string]int{"failed": 1}, most: map[string]int{"configured": 4},
	},
	{
		// A rack that can take no more Pods bounds the others: more machines there would stay empty.
		name:  "spread-bounded-by-a-full-domain",
		plan:  "0s room general/small/on-demand/r3 0\n0s room general/large/on-demand/r3 0\n1m set cluster-a spread web 3\n5m room cheap/small/spot/r3 0\n10m set cluster-a spread web 24",
		least: map[string]int{"reclaim": 2}, most: map[string]int{"configured": 7, "provision": 18, "reclaim": 2},
	},
	{name: "node-never-joins", plan: "set length 1h\n0s script cheap/small/spot/r1 never-joins\n1m set cluster-a service api 3", least: map[string]int{"failed": 1, "configured": 3}},
	{name: "blob-error", plan: "set length 1h\n0s blob cluster-a 10m\n1m set cluster-a service api 3", least: map[string]int{"blob-error": 1, "configured": 3}},
	{name: "operator-absent-for-an-hour", plan: "set length 2h\n1m set cluster-a tiny web 60\n10m away cluster-a 1h\n11m drop cluster-a web", least: map[string]int{"left": 5}},
	{name: "operator-restarts-with-empty-cache", plan: "1m set cluster-a tiny web 60\n10m restart cluster-a 2m", most: map[string]int{"reclaim": 0, "left": 0}},
	{
		name: "forged-empty-roll-up",
		plan: "1m set cluster-a tiny a 9\n1m set cluster-a service b 3\n1m set cluster-a batch c 1\n1m set cluster-a huge d 1\n1m set cluster-a bare e 2\n1m set cluster-a sidecar f 2\n" +
			"1m set cluster-a urgent g 2\n1m set cluster-a costly h 2\n1m set cluster-a racked i 2\n1m set cluster-a spread j 3\n1m set cluster-a gpu k 1\n1m set cluster-a either l 2\n" +
			"12m set cluster-a batch c 2\n12m10s forge cluster-a",
		least: map[string]int{"held": 1},
	},
	{name: "shard-restart-mid-create", plan: "1m crash 3\n1m set cluster-a service api 8", least: map[string]int{"leader": 2, "configured": 8}, most: map[string]int{"provision": 8}},
	{name: "shard-restart-mid-drain", plan: "1m set cluster-a tiny web 60\n12m scale cluster-a web 10\n13m10s failover 20s", least: map[string]int{"leader": 2, "left": 3}},
	{name: "shard-restart-mid-gang", plan: "1m crash 2\n1m set cluster-a gang train 3", least: map[string]int{"leader": 2, "configured": 3}, most: map[string]int{"provision": 3}},
	{name: "fail-over-with-a-zombie", plan: "1m set cluster-a service api 4\n5m takeover\n5m1s set cluster-a service api 8", least: map[string]int{"configured": 8}, most: map[string]int{"provision": 8}},
	{name: "budget-that-never-allows", plan: "set length 1h\n1m set cluster-a stubborn web 12\n1m set cluster-a tiny fill 40\n15m drop cluster-a fill", least: map[string]int{"reclaim": 1, "kept": 1}},
	{name: "refusal-then-surplus-elsewhere", plan: "set length 1h\n1m set cluster-a tiny web 80\n12m refuse cluster-a 5m\n12m scale cluster-a web 20", least: map[string]int{"kept": 1, "left": 1}},
	{
		name: "spot-notice-storm", plan: "1m set cluster-a tiny web 80\n10m notice 0\n10m notice 1\n10m notice 2\n10m notice 3\n10m notice 4\n10m notice 5",
		least: map[string]int{"condemned": 6, "provision": 13}, most: map[string]int{"provision": 16},
	},
	{
		name: "price-flip-flop",
		plan: "1m set cluster-a costly web 12\n10m price general/small/on-demand/r1 110\n15m price general/small/on-demand/r1 90\n20m price general/small/on-demand/r1 110\n25m price general/small/on-demand/r1 90",
		most: map[string]int{"reclaim": 0, "delete": 0},
	},
	{name: "bare-pods", plan: "1m set cluster-a bare one 12\n1m set cluster-a tiny fill 40\n15m drop cluster-a fill", most: map[string]int{"provision": 12}},
	{name: "three-that-stay-apart", plan: "set length 2h\n1m set cluster-a huge big 1\n10m set cluster-a apart web 3", most: map[string]int{"provision": 6}},
	{name: "many-become-empty-at-once", plan: "1m set cluster-a service api 143\n20m drop cluster-a api", least: map[string]int{"left": 143}},
	{name: "condemned-while-it-drains", plan: "1m set cluster-a stubborn web 3\n1m set cluster-a tiny fill 20\n12m drop cluster-a fill\n13m20s notice 0\n13m20s notice 1\n13m20s notice 2", least: map[string]int{"condemned": 1}},
	{name: "a-machine-is-used-again", plan: "1m set cluster-a costly web 12\n8m drop cluster-a web\n14m set cluster-a costly again 8", least: map[string]int{"bootstrap": 1}},
	{name: "boot-in-no-time", plan: "set boot 0s\n1m set cluster-a service api 20", least: map[string]int{"configured": 20}, most: map[string]int{"provision": 20}},
	{name: "boot-in-300-seconds", plan: "set boot 5m\n1m set cluster-a service api 20", least: map[string]int{"configured": 20}, most: map[string]int{"provision": 20}},
	{
		// They are counted whole, so that each machine that was bought for them serves some of them.
		name: "no-machine-of-pods-that-are-alike-is-asked-back", promise: "E1", plan: "set length 2h\nset cpus 2000\n1m set cluster-a tiny web 500\n30m scale cluster-a web 1000",
		least: map[string]int{"provision": 80}, most: map[string]int{"reclaim": 0, "instruct": 0, "pending web": 0},
	},
	{name: "small-needs-share-a-machine", plan: "1m set cluster-a tiny a 3\n1m set cluster-a bare b 1\n1m set cluster-a costly c 1", least: map[string]int{"provision": 1}, most: map[string]int{"provision": 2}},
	{
		name: "a-drop-that-comes-again-slowly", promise: "E5",
		plan: "1m set cluster-a tiny a 9\n1m set cluster-a service b 3\n1m set cluster-a batch c 1\n1m set cluster-a huge d 1\n1m set cluster-a bare e 2\n1m set cluster-a sidecar f 2\n" +
			"1m set cluster-a urgent g 2\n1m set cluster-a costly h 2\n1m set cluster-a racked i 2\n1m set cluster-a spread j 3\n1m set cluster-a gpu k 1\n1m set cluster-a either l 2\n" +
			"12m drop cluster-a a\n12m drop cluster-a b\n12m drop cluster-a c\n12m drop cluster-a d\n12m drop cluster-a e\n12m drop cluster-a f\n12m drop cluster-a g\n" +
			"12m drop cluster-a h\n12m drop cluster-a i\n12m drop cluster-a j\n12m drop cluster-a k\n12m drop cluster-a l\n12m8s away cluster-a 30s",
		least: map[string]int{"held": 2, "left": 5},
	},
	{
		name: "priority-decides-who-gets-the-last", promise: "E9", plan: "set cpus 16\n1m set cluster-a roll low 12\n1m set cluster-a boss high 1",
		most: map[string]int{"pending high": 0},
	},
	{
		name: "what-was-taken-for-a-need-is-kept-for-it", promise: "E2",
		plan: "set clusters 2\nset cpus 32\nset domain shared\nset length 1h\n1m set cluster-a costly low 28\n15m set cluster-b boss high 1",
		most: map[string]int{"preempt": 5, "pending high": 0},
	},
	{
		name: "a-success-ends-a-cooldown", promise: "E3",
		plan: "set length 70m\n0s room gpu/gpu8/on-demand/r2 0\n0s script gpu/gpu8/on-demand/r1 no-capacity\n0s script gpu/gpu8/on-demand/r1 no-capacity\n" +
			"0s script gpu/gpu8/on-demand/r1 no-capacity\n1m set cluster-a gpu infer 8\n45m script gpu/gpu8/on-demand/r1 no-capacity\n45m1s set cluster-a gpu infer 16",
		most: map[string]int{"pending infer": 0},
	},
	{
		// The need that came first fits on the machine of the second one, which fits on no other.
		name: "cheap-machines-are-kept-unless-a-need-would-lack-one", promise: "E1",
		plan:  "set length 1h\n1m set cluster-a service api 1\n1m set cluster-a tiny web 40\n10m price general/large/on-demand/r1 =50000\n11m set cluster-a huge db 1\n20m drop cluster-a web",
		least: map[string]int{"reclaim": 4}, most: map[string]int{"provision": 6, "reclaim": 4},
	},
	{
		name: "server-restarts-while-an-operator-is-stalled", promise: "E4",
		plan:  "1m set cluster-a tiny web 60\n10m stall cluster-a 5m\n10m1s failover 5s",
		least: map[string]int{"leader": 2}, most: map[string]int{"reclaim": 0, "cancel": 0},
	},
	{
		name: "the-cheaper-one-by-a-millionth", promise: "E10",
		plan: "0s price cheap/small/spot/r1 =9000000000\n0s price cheap/small/spot/r2 =9000000000\n0s price cheap/small/spot/r3 =9000000000\n0s price general/small/on-demand/r1 =2000000001\n0s price general/small/on-demand/r2 =2000000000\n0s price general/small/on-demand/r3 =2000000002\n" +
			"0s price general/large/on-demand/r1 =9000000000\n0s price general/large/on-demand/r2 =9000000000\n0s price general/large/on-demand/r3 =9000000000\n1m set cluster-a costly web 4",
		least: map[string]int{"provision general/small/on-demand/r2": 1}, most: map[string]int{"provision general/small/on-demand/r1": 0, "provision general/small/on-demand/r3": 0},
	},
}
