package sim_test

import (
	"testing"

	"nstance.dev/e2e/sim"
)

// scenarios are kept for ever: what the simulator has found, cut down, and what a
// random plan seldom comes to. The comment says how each failed.
var scenarios = []struct{ name, plan string }{
	{
		// S17: the tombstone of a lagging provider was taken for an instance that is
		// being deleted, and its events began anew under the next leader.
		"a leader stops while tombstones stand", `
			seed 1
			set delete 1s
			set lag 15s
			1s upsert web 4
			1m upsert web 0
			2m stop a
			2m20s start a
			2m30s stop b
			3m start b`,
	},
	{
		// S1, S3, S5: the lease is given back while writes and creates of the killed leader
		// are on their way, and again when somebody else leads.
		"a lease is given back before the last calls arrive", `
			seed 11
			weather store-slow 0.3
			weather cloud-slow 0.3
			1s upsert web 8
			20s upsert web 20
			20.3s crash-release-leader 100ms 40s
			35s release a
			36s release b
			1m30s upsert web 4
			1m31s crash-release-leader 1s 30s
			1m40s release a
			1m41s release b`,
	},
	{
		// S8: groups are planned at the same time, and each took all the room that
		// there was for deletions in a minute.
		"three groups are deleted at once", `
			seed 2
			set drain 0s
			weather store-slow 0.3
			1s upsert web 12
			2s upsert db 12
			3s upsert b.api 12
			1m delete-group web
			1m0.001s delete-group db
			1m0.002s delete-group b.api`,
	},
	{
		// S8: the next leader did not know what the last one had done in its last minute.
		"the leader dies while a large group is deleted", `
			seed 3
			set drain 0s
			1s upsert web 30
			2m delete-group web
			2m20s crash-leader 1m`,
	},
	{
		// S6: the decision that an agent does not come was carried out after it had come.
		"agents register in the last moment", `
			seed 7
			set timeout 1m
			weather agent-slow 1
			weather store-slow 0.4
			1s upsert web 20`,
	},
	{
		// L1: a record that a late write had brought back stood for ever.
		"writes land long after their answer was lost", `
			seed 33
			set length 20m
			weather store-late 0.3
			weather cloud-refused 0.3
			1s upsert web 6
			2m upsert web 2
			4m upsert web 6
			6m upsert web 0
			8m upsert web 5`,
	},
	{
		// L4: whoever takes over has to know that a machine is drained already. The
		// first leader cannot reach the provider any more, and so cannot delete.
		"the leader dies with an acknowledgement in hand", `
			seed 5
			set drain 10m
			set length 20m
			weather drain-never 1
			1s upsert web 3
			1m cut a cloud 1h
			1m cut b cloud 4m
			1m0.5s upsert web 2
			1m20s drained
			1m40s crash-leader 2m`,
	},
	{
		// S6: a provider that shows nothing, while the agents are out of sight too.
		"the provider shows nothing and the agents are cut off", `
			seed 6
			1s upsert web 8
			1m cut agents a 3m
			1m cut agents b 3m
			1m30s storm cloud-empty 2m`,
	},
	{
		// S20, F21: nearly every machine of the shard is on its way out, and runs.
		"the provider shows nothing while most machines are being drained", `
			seed 7
			set drain 10m
			set length 20m
			weather drain-never 1
			1s upsert web 8
			2m upsert web 0
			3m storm cloud-empty 3m`,
	},
	{
		// S20, F21: as before, of machines too few for an alarm.
		"the provider shows nothing while one machine is being drained", `
			seed 7
			set drain 10m
			set length 20m
			weather drain-never 1
			1s upsert web 1
			2m upsert web 0
			3m storm cloud-empty 3m`,
	},
	{
		// S2: it has to look at its lease before it acts again.
		"a leader sleeps through its lease amid creates", `
			seed 8
			1s upsert web 40
			3s freeze-leader 50s`,
	},
	{
		// F11: whoever leads next begins above every term that was; also where the leader
		// cannot see that its lock is gone.
		"the lock is deleted while the leader is cut off from storage", `
			seed 9
			1s upsert web 6
			30s lose-lock
			1m cut a store 1m
			1m1s lose-lock
			1m2s upsert web 9
			4m cut b store 1m
			4m1s lose-lock
			4m2s upsert web 3`,
	},
	{
		// S1: the last leaders had nothing to change in the group file, and so its term was
		// an old one. Whoever came next, without a lock and without a cache directory, began
		// below what they had written into records.
		"the lock is lost after leaders that changed no group", `
			seed 10
			set servers 1
			1s upsert web 3
			1m crash a lose
			1m1s start a
			2m crash a lose
			2m1s start a
			2m40s create web
			3m crash a lose
			3m1s lose-lock
			3m2s start a`,
	},
	{
		// S5: a group was made smaller while the last of its new records took long to write,
		// and that one's machine was made all the same.
		"a group shrinks while a record hangs", `
			seed 24
			set servers 1
			set delete 40s
			set drain 1m
			set lag 15s
			set mode liveness
			weather store-hangs 0.0054
			weather store-refused 0.1324
			weather store-repeated 0.0810
			1.591273762s upsert web 4
			2.100961933s upsert b.api 2
			12.210889065s freeze a 44.722s
			1m19.118533208s crash-leader 51.116s
			3m9.104668247s pause b.api 22.119s
			4m21.662225298s upsert b.api 0
			4m31.13024157s upsert b.api 5
			4m40.608906631s upsert b.api 2`,
	},
	{
		// S1, of the model: a standby claims the lock of a leader that does not know yet that
		// it is lost. Nobody acts in the claim's term, so the leader's last writes are fine.
		"the lock is claimed while the leader goes on", `
			seed 11
			1s upsert web 4
			59s cut b a 30s
			1m0.3s lose-lock
			1m1s upsert web 9
			1m2s upsert web 3
			1m3s upsert web 8`,
	},
	{
		// S2, of the oracle: a renewal lands after its answer was given up, and counts.
		"renewals land late", `
			seed 1047
			set delete 1s
			set drain 20s
			set lag 15s
			set servers 1
			weather store-lost 0.0466
			3m0.079465963s crash-leader 6.431s
			3m42.392981755s freeze a 48.03s
			6m32.926453123s storm store-late 37.136s`,
	},
	{
		// S6, of the oracle: the write of a condemnation hangs while the group grows again.
		"a condemnation hangs while its group grows", `
			seed 1059
			set delete 5s
			set drain 1m
			set lag 15s
			set operator no
			set servers 3
			weather store-hangs 0.0073
			weather store-paced 0.3513
			weather store-refused 0.0579
			1.520402142s upsert web 4
			1m19.401548494s upsert web 2
			1m24.907075414s upsert web 6`,
	},
	{
		// S21, of the oracle: calls that had their turn while their process stood still go
		// out together when it goes on.
		"a leader stands still amid creates", `
			seed 20043
			set delete 5s
			set drain 20s
			10.201090445s cut a operators 1m13.244s
			40.450606074s upsert web 26
			43.841900252s upsert web 1
			52.492399116s freeze a 4.948s`,
	},
	{
		// S17, of the oracle: a late write brings back the record of an instance that was
		// given up before its create was sent.
		"a record comes back of what was never made", `
			seed 20219
			set delete 5s
			set drain 20s
			weather cloud-quota 0.0385
			weather store-late 0.0123
			weather store-refused 0.1648
			weather store-slow 0.0533
			1.555261401s upsert web 4
			2.386035725s upsert b.api 2
			23.930933172s crash-leader 23.177s
			1m11.988445728s kill web 62`,
	},
	{
		// L6, of the network: agents do not hear that a server cut off from them has ended
		// their streams, and find out by themselves.
		"streams end while their agents are cut off", `
			seed 20256
			set mode liveness
			1s upsert web 4
			1m cut store a 1m20s
			1m cut store b 5s
			1m20s cut a agents 1m4s`,
	},
	{
		// S1, of the model: the write of a claim takes long. Its lease counts from when it was
		// sent, for the lock was gone by then.
		"the claim of a lost lock takes long", `
			seed 30053
			set delete 1s
			set drain 0s
			set operator no
			weather store-slow 0.0494
			2m50.143367966s lose-lock
			2m53.25234283s freeze a 51.927s`,
	},
	{
		// S6, of the oracle: the write of a condemnation hangs, and meanwhile somebody ends
		// another machine of the group.
		"a condemnation hangs while another machine is drained", `
			seed 1239
			set delete 40s
			set drain 1m
			set lag 15s
			set operator no
			set servers 1
			weather cloud-full 0.0840
			weather store-hangs 0.0017
			weather store-paced 0.0004
			1.83799238s upsert web 4
			8.887980662s create web
			35.315887753s crash a keep
			1m16.834862706s ack web 94
			1m19.374887753s start a
			1m33.686648929s upsert web 2
			1m56.355092319s upsert web 6
			2m0.746903525s crash a keep
			2m36.618903525s start a
			4m15.279400708s create web
			6m38.698817673s notice web 99
			6m56.596401708s upsert web 4
			7m2.508942487s ack web 46`,
	},
	{
		// S6, of the oracle: one machine is too many, and by the time that its condemnation
		// lands the same plan has condemned many that never came up.
		"a leader comes back to a group that never came up", `
			seed 1443
			set delete 1s
			set drain 1m
			set operator no
			weather cloud-slow 0.1824
			weather cloud-stillborn 0.0568
			weather store-conflict 0.0789
			weather store-lost 0.0397
			weather store-paced 0.0900
			weather store-refused 0.1590
			1.832736431s upsert web 4
			2.477761063s upsert b.api 2
			2m1.779114093s vanish web 34
			2m41.146843753s discard b.api 28
			4m14.392411933s freeze a 50.044s
			7m27.358311377s upsert web 28
			7m30.581411618s freeze-leader 39.363s`,
	},
	{
		// F8: the last renewal of a killed leader lands after its successor with the same id
		// has looked at the lock, and was taken for that of another live server.
		"a renewal outlives its leader", `
			seed 1404
			set servers 1
			set mode liveness
			weather store-late 0.0127
			16.542024639s crash a lose
			19.753024639s start a`,
	},
	{
		// S6: a condemnation by the size waited for an earlier write of its record, and was
		// carried out though the group had lost another machine by then, as somebody asked for.
		"a condemnation waits for another write of its record", `
			seed 1000188
			set delete 1s
			set drain 0s
			set eligible 4m
			set lag 0s
			set mode liveness
			set operator yes
			set servers 2
			weather cloud-full 0.0699
			weather cloud-refused 0.1650
			weather cloud-throttled 0.0828
			weather net-mute 0.0007
			weather net-slow 0.0855
			weather store-conflict 0.0285
			weather store-hangs 0.0099
			weather store-lost 0.0205
			weather store-repeated 0.0786
			1.016420014s upsert web 4
			2.342638353s upsert b.api 2
			24.229398444s remove web 88
			49.298576119s start b
			1m0.149954483s lose-lock
			1m0.554512729s freeze a 28.153s
			1m18.078894098s create web
			1m29.577026888s kill web 29
			1m37.056629324s freeze a 6.136s
			1m40.545109249s upsert web 6
			1m49.349016055s upsert web 26
			1m55.600155642s upsert web 1
			2m40.184226263s stop b
			3m22.40478525s upsert web 4
			3m40.721214539s kill web 24
			5m0.893884411s kill web 1
			5m15.21075961s upsert web 6
			5m21.285500687s upsert web 4`,
	},
	{
		// S5, of the oracle: a new size of a static group is in force once what it changes in
		// the group file is written, and that write hangs.
		"the size of a static group takes long to come into force", `
			seed 900591
			set delete 40s
			set drain 1m
			set eligible 4m
			set lag 0s
			set mode safety
			set operator no
			set servers 3
			weather store-hangs 0.0093
			weather store-refused 0.1177
			35.420018418s freeze b 48.054s
			2m34.102312516s cut a store 42.396s
			3m34.436949718s upsert web 4
			4m4.932184368s upsert db 5
			5m7.597099502s upsert web 30
			5m20.649840197s upsert web 5
			5m28.338531869s upsert web 2
			6m27.640090279s upsert web 5
			6m43.778668054s upsert web 0
			6m46.951372625s upsert web 5
			7m8.300089258s upsert b.api 3
			7m32.461429708s delete-group db
			8m4.608566249s config jobs 1`,
	},
	{
		// L4, of the oracle: a machine that is drained while its group is paused goes with the
		// end of the pause.
		"a machine is drained while its group is paused", `
			seed 310
			set delete 5s
			set drain 5m
			set eligible 4m
			set lag 15s
			set mode liveness
			set operator yes
			set servers 2
			weather store-paced 0.3313
			1.916197439s upsert web 4
			19.95173022s remove web 19
			3m6.27994933s pause web 2m57.87s`,
	},
	{
		// S6: a size that was raised while a take-over waited for the provider came into force
		// after the first plan, which condemned what was too many for the size of before.
		"a size is raised during a long take-over", `
			seed 2000910
			set jobs 4
			1s upsert web 2
			2m cut a cloud 4m
			2m cut b cloud 4m
			2m1s config jobs 1
			2m1.5s crash-leader 8m
			3m30s config jobs 4`,
	},
	{
		// S6: the condemnation of a replaced machine stood, and the leader did not hear of it.
		// When the reason to replace it was taken back, the replacement went as one too many.
		"a condemnation without an answer, and a reason that is taken back", `
			seed 3000010
			set delete 5s
			set drain 0s
			set eligible 4m
			set lag 15s
			set mode liveness
			set operator no
			set servers 2
			weather cloud-full 0.1908
			weather cloud-lost 0.1296
			weather store-conflict 0.0287
			weather store-paced 0.8087
			weather store-refused 0.1792
			weather store-slow 0.0690
			49.284992897s crash-leader 1.305s
			1m33.761941398s cut a b 1m16.078s
			1m59.360541587s upsert b.api 5
			2m8.383884262s stop a
			2m50.320922587s cut b agents 1m24.88s
			3m2.897884262s start a
			3m34.858461161s upsert db 5
			3m35.230451332s upsert web 5
			3m40.34119696s freeze a 29.306s
			3m51.272076248s stop b
			4m14.995864284s freeze a 29.184s
			4m29.578076248s start b
			5m49.488967601s freeze b 1.283s
			6m54.595580283s kill db 6`,
	},
	{
		// S6: while the condemnation of a machine that somebody named was being recorded, the
		// size went down, and the machine counted as one that stays.
		"a size goes down while a condemnation is being recorded", `
			seed 2002796
			set delete 1s
			set drain 20s
			set eligible
			set lag 15s
			set mode liveness
			set operator yes
			set servers 2
			weather store-conflict 0.0443
			weather store-hangs 0.0035
			weather store-late 0.0228
			weather store-lost 0.0421
			weather store-paced 0.1406
			1.123021852s upsert web 4
			2.439756438s upsert b.api 2
			31.200941081s pause web 2m41.172s
			1m19.748732798s freeze a 43.76s
			1m37.155181056s vanish b.api 1
			3m6.535987221s upsert b.api 0
			4m24.765787017s freeze-leader 16.934s
			5m37.095259339s upsert db 1
			5m45.413612389s delete-group web
			5m49.652249106s upsert web 2
			6m1.542198827s upsert b.api 4
			6m23.223025192s remove b.api 13
			6m26.298239666s upsert b.api 2`,
	},
	{
		// L4, of the oracle: a machine is drained while the provider is out of reach, and goes
		// when that is over.
		"a machine is drained while the provider is out of reach", `
			seed 2003092
			set delete 1s
			set drain 5m
			set eligible 4m
			set lag 0s
			set mode liveness
			set operator yes
			set servers 2
			1.34884865s upsert web 4
			3m0.599459256s upsert web 1
			6m0.578106363s cut a cloud 1m54.188s`,
	},
	{
		// S6: a machine that was being replaced for its age went as one too many, and took along
		// its replacement, which was well again, and the replacement of that one.
		"a replacement is replaced, and well again", `
			seed 2005223
			set delete 1s
			set drain 5m
			set eligible 4m
			set lag 15s
			set mode safety
			set operator no
			set servers 3
			weather cloud-full 0.1192
			8m17.590912285s cut a agents 1m31.808s
			8m46.562032024s freeze a 5.095s
			9m10.282823724s freeze c 35.594s`,
	},
	{
		// S23, of the oracle: a group that is being deleted is paused. Who comes after it with
		// the same name is not.
		"a deleted group is paused", `
			seed 2005315
			set delete 40s
			set drain 1m
			set eligible
			set lag 15s
			set mode safety
			set operator yes
			set servers 3
			31.494895687s upsert web 4
			1m26.77581423s delete-group web
			2m39.366634712s pause web 2m25.815s
			3m35.805931915s upsert web 6`,
	},
	{
		// S8, of the oracle: the clock by which a leader counts a minute is put forward in it.
		"a clock is put forward while a large group is deleted", `
			seed 2005893
			set delete 5s
			set drain 0s
			set eligible
			set lag 0s
			set mode safety
			set operator yes
			set servers 2
			3m38.552687617s upsert web 25
			4m33.470615102s delete-group web
			6m31.130542624s skew b 855ms`,
	},
	{
		// S5: a replacement was replaced, and well again, and both counted as what is to come in
		// the place of the first one.
		"a machine is lost while a replacement is well again", `
			seed 2005653
			set delete 40s
			set drain 0s
			set eligible
			set lag 15s
			set mode safety
			set operator no
			set servers 2
			weather agent-slow 0.1222
			weather cloud-full 0.1173
			weather cloud-slow 0.0296
			weather net-slow 0.0936
			weather store-late 0.0135
			1.95451441s upsert web 4
			2.118644737s upsert b.api 2
			1m37.804810372s freeze-leader 56.857s
			1m44.273496476s upsert b.api 6
			1m46.244522045s upsert b.api 1
			2m1.641525823s crash a lose
			2m46.310525823s start a
			2m47.440647433s storm store-late 20.133s
			2m58.426580422s crash b lose
			3m25.361701267s config infra edit-0
			3m40.786580422s start b
			3m56.784794365s cut a agents 1m17.106s
			4m14.458856597s freeze b 37.717s
			4m33.740228131s vanish b.api 86`,
	},
	{
		// S6: a machine was condemned, and given up at the same moment because its group had
		// shrunk before it was asked for. Its record went though the deletion was under way, and
		// a late write brought it back without the condemnation.
		"a machine is condemned and given up", `
			seed 2007380
			set delete 1s
			set drain 20s
			set eligible 4m
			set lag 15s
			set mode liveness
			set operator no
			set servers 3
			weather store-late 0.0382
			weather store-refused 0.1470
			15.120978286s upsert db 6
			1m1.85922143s cut cloud a 1m26.574s
			1m12.472594588s upsert web 3
			1m14.487686668s upsert web 1`,
	},
	{
		// S5, of the oracle: the deletion of a group is durable, and its leader has to wait long
		// for storage to say so.
		"a group is deleted and its leader does not hear of it", `
			seed 2007721
			set delete 1s
			set drain 20s
			set eligible 4m
			set lag 0s
			set mode safety
			set operator no
			set servers 2
			weather cloud-full 0.1068
			weather cloud-late 0.0594
			weather cloud-quota 0.0362
			weather cloud-refused 0.1154
			weather net-break 0.0191
			weather net-mute 0.0101
			weather store-hangs 0.0052
			weather store-late 0.0056
			weather store-lost 0.0425
			weather store-paced 0.2753
			weather store-refused 0.1129
			1.07071742s upsert web 4
			2.225599788s upsert b.api 2
			5.396710005s cut a store 4.648s
			34.367821137s remove db 51
			34.633270635s restart web 2
			37.294377067s upsert b.api 5
			52.997742104s notice web 66
			1m8.785759128s upsert web 5
			1m18.253508092s upsert db 5
			1m51.967593823s reboot web 67
			2m7.361284094s crash-leader 23.18s
			2m11.632051902s create b.api
			2m52.717174305s upsert web 4
			3m13.623978341s ack web 64
			3m14.852450749s create web
			3m22.259101649s cut a cloud 37.608s
			3m36.842402481s steal web 54
			3m38.697707416s storm agent-never 24.533s
			3m40.092987508s decrement b.api 61
			4m17.493921035s upsert web 6
			4m25.630941794s cut b a 9.768s
			4m35.457826055s reboot b.api 68
			4m36.178045762s steal web 82
			4m39.030134345s upsert db 6
			4m42.376024846s restart web 24
			4m47.620163157s steal b.api 69
			5m17.193453223s restart db 21
			5m27.312390874s pause web 36.786s
			5m34.491566512s upsert web 0
			5m40.299008738s vanish web 59
			5m41.451838073s ack web 10
			5m54.031282546s remove web 69
			5m55.776552901s delete-group b.api
			6m17.43677432s reboot web 57
			6m44.396198266s notice b.api 98
			6m59.401527988s storm cloud-quota 56.87s
			7m13.824201345s cut operators b 16.906s
			7m13.856227855s cut store a 22.994s
			7m25.41720512s vanish web 98
			7m27.231672618s create web
			7m34.61614295s decrement db 9
			7m48.124254667s reboot web 29
			8m0.699017143s upsert web 5
			8m10.825742867s upsert db 0
			8m31.898610354s cut store b 1m19.384s
			8m36.342300382s reboot web 92
			8m37.27442324s vanish web 86
			9m13.514342261s upsert b.api 4
			9m23.859228085s delete-group web
			9m34.598097663s remove web 28
			9m54.301646659s full 1m59.218s`,
	},
	{
		// S6: machines were given up because the group had shrunk before they were asked for,
		// at the very moment in which a plan took others for the same size.
		"a group shrinks before all of its machines are asked for", `
			seed 2004629
			set delete 1s
			set drain 0s
			set eligible
			set lag 0s
			set mode safety
			set operator no
			set servers 2
			weather store-late 0.0204
			1.789648777s upsert web 4
			2.980305277s upsert b.api 2
			51.416859003s upsert db 0
			1m5.679020608s pause db 2m52.875s
			1m39.000803265s stop a
			2m13.739269183s crash b lose
			2m14.648803265s start a
			2m51.995608807s upsert db 4
			4m0.629075686s upsert db 2`,
	},
	{
		// S6: one was too many and another one had never joined, and one plan condemned a victim of
		// the size beside the failed launch.
		"one is too many and another one never joined", `
			seed 2007826
			set delete 5s
			set drain 20s
			set eligible
			set lag 0s
			set mode safety
			set operator yes
			set servers 1
			weather store-lost 0.0705
			weather store-paced 0.0157
			weather store-refused 0.0065
			1.732818517s upsert web 4
			2.564559599s upsert b.api 2
			38.897652488s freeze a 31.731s
			1m0.132758319s kill web 78`,
	},
	{
		// S5: a lost machine was replaced while the condemnation of one that somebody named was
		// being recorded, as if that one had gone already.
		"a machine is lost and another one named to go while their group is paused", `
			seed 2018823
			set delete 1s
			set drain 0s
			set eligible 4m
			set lag 0s
			set mode safety
			set operator no
			set servers 3
			weather agent-never 0.0915
			weather cloud-slow 0.0417
			weather store-paced 0.2077
			1.567726585s upsert web 4
			2.364949775s upsert b.api 2
			9.148678649s upsert web 1
			1m6.763638443s upsert db 4
			1m7.829145133s upsert web 3
			2m5.204917933s remove db 18
			4m15.267361746s upsert web 4
			4m17.625905574s upsert web 6
			4m23.123349931s skew a 12.271s
			6m5.095840479s pause db 1m14.901s
			6m5.148520364s decrement db 81
			6m7.947904347s kill db 18`,
	},
	{
		// S7, of the oracle: while the condemnation of a replaced machine was on its way, the
		// replacement that it names ended, and handed the place on to its own.
		"a replacement ends while the condemnation that names it is on its way", `
			seed 2009108
			set delete 1s
			set drain 0s
			set eligible
			set lag 0s
			set mode safety
			set operator no
			set servers 2
			weather agent-never 0.0835
			weather agent-slow 0.0854
			weather cloud-dies 0.0857
			weather cloud-late 0.0864
			weather cloud-page 0.1921
			weather cloud-stillborn 0.0182
			weather cloud-throttled 0.1355
			weather store-conflict 0.0091
			weather store-lost 0.0073
			weather store-slow 0.0659
			1.371151147s upsert web 4
			2.30728232s upsert b.api 2
			2m2.09856283s upsert db 6
			2m22.834506023s delete-group db
			2m24.186760297s config infra edit-0
			2m38.772301948s vanish web 95
			2m42.865254125s upsert db 25
			3m26.789710384s create web
			3m28.579461223s upsert b.api 6
			4m7.602162855s lose-lock
			4m49.843193516s stop b
			4m57.676047882s create web
			5m2.730060683s upsert db 6
			5m37.537067907s upsert b.api 1
			6m7.157908304s upsert web 3
			7m21.619432733s remove web 61
			7m21.953065824s start b
			7m34.426377284s vanish web 43
			7m57.78978911s vanish web 88
			8m6.092177684s freeze-leader 44.163s`,
	},
	{
		// L1, of the oracle: two hours were allowed to any shard. A large group whose drains
		// take long rotates for longer than that: one machine after another.
		"a large group rotates and its drains take long", `
			seed 1
			set drain 10m
			set delete 40s
			1s upsert db 31
			9m config infra edit-0`,
	},
	{
		// S23, of the oracle: the answer to a pause was lost, and it was asked for again while
		// somebody asked for its end, which came right after the promise.
		"a pause is promised while its end is asked for", `
			seed 3301210
			set drain 20s
			set lag 15s
			set mode liveness
			set servers 1
			set delete 5s
			weather agent-never 0.1359
			weather store-lost 0.0630
			weather store-refused 0.0583
			weather store-slow 0.0313
			3m12.32377271s freeze a 30.204s
			4m25.037182894s cut operators a 1m23.294s
			5m39.000648081s freeze a 9.042s
			6m58.254372641s stop a
			7m19.385372641s start a
			7m25.019392425s upsert db 29
			9m47.894928421s cut store a 30.208s
			9m48.344488045s pause db 2m21.081s`,
	},
	{
		// M84: work at machines, and leaders that change meanwhile. None is replaced, but the one
		// that somebody has forgotten, when its hold ends.
		"machines are switched off and on under a hold", `
			seed 11
			set length 30m
			1s upsert web 8
			1m away web 1 6m
			1m30s away web 2 10m
			2m crash-leader 1m
			3m hold web 4 reboot 10m
			3m10s reboot web 4
			4m forget web 5 4m
			6m crash-leader 1m
			9m upsert web 6
			14m config infra edit-1`,
	},
	{
		// M84: a machine falls silent just before it is put on hold, and the record of its hold
		// and that of its removal are on their way at once.
		"machines are put on hold while they are found sick", `
			seed 12
			set length 20m
			weather store-slow 0.5
			1s upsert web 10
			1m hang web 1
			1m hang web 3
			1m hang web 6
			1m31s hold web 1 reboot 8m
			1m33s hold web 3 repave 8m
			1m36s hold web 6 reboot 8m
			3m crash-leader 1m`,
	},
	{
		// M85: the leader dies in each second of a power cycle.
		"leaders die amid power cycles", `
			seed 13
			set hosts yes
			set length 30m
			1s upsert web 12
			1m cycle web 0
			1m3s crash-leader 20s
			3m cycle web 1
			3m6s crash-leader 20s
			5m cycle web 2
			5m9s crash-leader 20s
			7m cycle web 3
			7m12s crash-leader 20s
			9m cycle web 4
			9m15s crash-leader 20s
			11m cycle web 5
			11m18s crash-leader 20s
			13m cycle web 6
			13m1s crash-leader 20s
			15m cycle web 7
			15m2s freeze-leader 50s`,
	},
	{
		// M85: writes and calls fail, and answers are lost, amid power cycles.
		"power cycles in bad weather", `
			seed 14
			set hosts yes
			set length 30m
			weather store-lost 0.1
			weather store-slow 0.2
			weather store-refused 0.1
			weather cloud-refused 0.1
			1s upsert web 8
			2m cycle web 0
			2m30s cycle web 1
			3m cycle web 2
			4m crash-leader 30s
			6m cycle web 3
			7m cycle web 0
			8m crash-leader 30s
			10m upsert web 3`,
	},
}

// TestScenarios runs each of them, and demands that every promise is kept.
func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p, err := sim.Parse(s.plan)
			if err != nil {
				t.Fatal(err)
			}
			res := search.Play(t, p)
			for _, v := range res.Violations {
				t.Errorf("%s", v)
			}
		})
	}
}
