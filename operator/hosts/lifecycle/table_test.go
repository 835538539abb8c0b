package lifecycle

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is a time before now.
func at(before time.Duration) *metav1.Time { return ptr.To(metav1.NewTime(now.Add(-before))) }

// Versions of configuration gpu.
func version(n int32) hostsv1.VersionReference {
	hash := hostsv1.SHA256("sha256:" + strings.Repeat(strconv.Itoa(int(n)), 64))
	return hostsv1.VersionReference{Name: "gpu", Version: n, UID: "uid-gpu", Hash: hash}
}

func ref(n int32) *hostsv1.VersionReference { return ptr.To(version(n)) }

// fresh is a machine whose host is ready to be told the first time.
func fresh() Input {
	return Input{
		Machine: &hostsv1.HostMachine{
			ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "uid-m", Finalizers: []string{hostsv1.Finalizer}},
			Spec:       hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerNstance, Instance: &hostsv1.InstanceReference{Shard: "a", ID: "m"}},
		},
		Desired:  Desired{Version: ref(1), Known: func(v hostsv1.VersionReference) bool { return v.UID == "uid-gpu" }},
		Node:     Node{Presence: NodeAbsent},
		Instance: Instance{Complete: true, Running: true, Alive: true},
		Host:     Host{Known: true, Connected: true, Report: &Report{Stage: StageIdle}},
	}
}

// told is a machine that was assigned version 1 by epoch 1, which its shard keeps with a fresh credential.
func told() Input {
	in := fresh()
	in.Machine.Status.Configuration = &hostsv1.ConfigurationStatus{Assigned: &hostsv1.AssignedVersion{VersionReference: version(1), Epoch: 1, At: at(time.Minute)}}
	in.Machine.Status.Repave = &hostsv1.RepaveStatus{
		Epoch: 1, Mode: hostsv1.ModePave, Reason: ReasonFirst,
		Join: &hostsv1.JoinStatus{Epoch: 1, Sequence: 1, IssuedAt: at(time.Minute), ExpiresAt: at(-59 * time.Minute)},
	}
	in.Host.Stored = &Stored{Epoch: 1, Mode: hostsv1.ModePave, MachineUID: "uid-m", Version: version(1)}
	return in
}

// builds is one whose host is in a stage of epoch 1.
func builds(stage Stage) Input {
	in := told()
	in.Host.Report = &Report{Epoch: 1, Stage: stage}
	if stage == StageJoin {
		in.Host.Report.Slots = []Slot{{State: hostsv1.SlotRunning, Version: version(1), Epoch: 1, BootID: "boot-1"}}
	}
	return in
}

// live is a Node whose kubelet runs in a boot.
func live(uid, boot string) Node {
	return Node{Presence: NodeLive, UID: uid, ResourceVersion: "7", BootID: boot, Ready: true, Heartbeat: now.Add(-time.Second)}
}

// runs is one whose Node runs version 1, as everybody knows.
func runs() Input {
	in := builds(StageJoin)
	in.Host.Report.Stage = StageRunning
	in.Host.Stored.Confirmed, in.Host.Stored.ConfirmedBootID = "node-1", "boot-1"
	in.Node = live("node-1", "boot-1")
	in.Node.Marked, in.Node.MachineUID = true, "uid-m"
	in.Machine.Status.NodeRef = &hostsv1.NodeReference{Name: "m", UID: "node-1"}
	in.Machine.Status.Configuration.Applied = &hostsv1.AppliedVersion{VersionReference: version(1)}
	return in
}

// missing is one whose Node is gone, seen twice.
func missing() Input {
	in := runs()
	in.Node = Node{Presence: NodeAbsent, Confirmed: true}
	in.Desired.Version = ref(2)
	return in
}

// repaves is one that was assigned version 2 by epoch 2 because its Node was deleted, and whose host
// is in a stage of it.
func repaves(stage Stage) Input {
	in := missing()
	in.Machine.Status.NodeRef.UID = ""
	in.Machine.Status.Configuration.Assigned = &hostsv1.AssignedVersion{VersionReference: version(2), Epoch: 2, At: at(time.Minute)}
	join := in.Machine.Status.Repave.Join
	join.Epoch = 2
	in.Machine.Status.Repave = &hostsv1.RepaveStatus{Epoch: 2, Mode: hostsv1.ModeRepave, Reason: ReasonNodeDeleted, ReplacedBootID: "boot-1", Join: join}
	in.Node = Node{Presence: NodeAbsent}
	in.Host.Stored = &Stored{Epoch: 2, Mode: hostsv1.ModeRepave, MachineUID: "uid-m", Version: version(2)}
	in.Host.Report = &Report{Epoch: 2, Stage: stage}
	switch stage {
	case StageFetch, StageBuild, StageGuard:
		in.Host.Report.Slots = []Slot{{State: hostsv1.SlotRunning, Version: version(1), Epoch: 1, BootID: "boot-1"}}
	case StageJoin, StageCommit, StageSweep, StageRunning:
		in.Host.Report.Slots = []Slot{{State: hostsv1.SlotRunning, Version: version(2), Epoch: 2, BootID: "boot-2"}}
	}
	return in
}

// gaveUp is one whose host gave epoch 2 up, and went back to version 1, whose Node is there again.
func gaveUp(outcome Outcome) Input {
	in := repaves(StageFetch)
	in.Host.Report.Stage = StageFailed
	in.Host.Report.Failure = &Failure{Epoch: 2, Stage: StageJoin, Reason: "JoinTimeout", Message: "no Node in 10m0s", Outcome: outcome}
	in.Host.Report.Slots[0].BootID = "boot-3"
	in.Node = live("node-2", "boot-3")
	if outcome == OutcomeHeld {
		in.Host.Report.Slots = []Slot{{State: hostsv1.SlotRunning, Version: version(2), Epoch: 2, BootID: "boot-2"}}
		in.Node = Node{Presence: NodeAbsent}
	}
	return in
}

func deleted(in Input, since time.Duration) Input {
	in.Machine.DeletionTimestamp = at(since)
	return in
}

// with changes an input.
func with(in Input, change func(*Input)) Input {
	change(&in)
	return in
}

// row is a row of the table of tests.
type row struct {
	name string
	in   Input
	want Decision // without phase, conditions and when to look again
}

func test(t *testing.T, rows []row) {
	t.Helper()
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.in.Machine.DeepCopy()
			got := Decide(tt.in, now)
			phase, conditions, after := got.Phase, got.Conditions, got.After
			got.Phase, got.Conditions, got.After = "", nil, 0
			if tt.want.Reason == "" {
				got.Reason = ""
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			if phase == "" || len(conditions) < 3 || after <= 0 {
				t.Errorf("phase %q, %d conditions, look again after %v", phase, len(conditions), after)
			}
			if diff := cmp.Diff(before, tt.in.Machine); diff != "" {
				t.Errorf("the machine was changed:\n%s", diff)
			}
			if again := Decide(tt.in, now); again.Action != got.Action || again.Phase != phase {
				t.Errorf("the same input gives %s, then %s", got.Action, again.Action)
			}
		})
	}
}

func pave() Assignment {
	return Assignment{Mode: hostsv1.ModePave, Epoch: 1, Version: version(1), Reason: ReasonFirst}
}

// M42: the first assignment, and all that keeps it.
func TestM42_FirstAssignment(t *testing.T) {
	wait := Decision{Row: RowFirst, Action: None}
	test(t, []row{
		{"the host is ready", fresh(), Decision{Row: RowFirst, Action: Assign, Assignment: pave()}},
		{"M6: the finalizer comes first", with(fresh(), func(in *Input) { in.Machine.Finalizers = nil }),
			Decision{Row: RowFirst, Action: Hold}},
		{"the machine stands for no instance", with(fresh(), func(in *Input) { in.Machine.Spec.Instance = nil }),
			Decision{Row: RowForeign, Action: None}},
		{"the instance does not run", with(fresh(), func(in *Input) { in.Instance.Running = false }), wait},
		{"the agent is not connected", with(fresh(), func(in *Input) { in.Host.Connected = false }), wait},
		{"the host has not reported", with(fresh(), func(in *Input) { in.Host.Report = nil }), wait},
		{"a check failed", with(fresh(), func(in *Input) { in.Host.Report.Preflight = []Check{{ID: "swap", Message: "swap is on", Failed: true}} }),
			Decision{Row: RowFirst, Action: None, Reason: "the host does not pass a check of the preflight: swap: swap is on"}},
		{"a check found something that is allowed", with(fresh(), func(in *Input) { in.Host.Report.Preflight = []Check{{ID: "cgroup-v2", Message: "v1"}} }),
			Decision{Row: RowFirst, Action: Assign, Assignment: pave()}},
		{"M12: there is no version", with(fresh(), func(in *Input) { in.Desired = Desired{Reason: hostsv1.ReasonNoMatch, Message: "no selector matches"} }),
			Decision{Row: RowNoVersion, Action: None, Reason: "no selector matches"}},
		{"on hold for power", with(fresh(), func(in *Input) { in.Instance.PowerHeld = true }), Decision{Row: RowBlocked, Action: None}},
		{"paused", with(fresh(), func(in *Input) { in.Machine.Spec.Paused = true }), Decision{Row: RowBlocked, Action: None}},
		{"the instance leaves", with(fresh(), func(in *Input) { in.Instance.Leaving = "the instance is condemned: expired" }),
			Decision{Row: RowBlocked, Action: None, Reason: "the instance is condemned: expired"}},
		{"the shard is out of sight", with(fresh(), func(in *Input) { in.Instance.Complete = false }), Decision{Row: RowBlocked, Action: None}},
		{"nothing is known of hosts", with(fresh(), func(in *Input) { in.Host.Known = false }), Decision{Row: RowBlocked, Action: None}},
		{"the instance is gone", with(fresh(), func(in *Input) { in.Instance.Gone = true }), Decision{Row: RowGone, Action: None}},
		{"M52: the Node is unknown", with(fresh(), func(in *Input) { in.Node = Node{Presence: NodeUnknown, Why: "403"} }),
			Decision{Row: RowBlocked, Action: None, Reason: "it is not known whether the Node exists: 403"}},
		{"the Node is not said to be anything", with(fresh(), func(in *Input) { in.Node = Node{} }), Decision{Row: RowBlocked, Action: None}},
		{"a Node of the name was not built here", with(fresh(), func(in *Input) { in.Node = live("foreign", "boot-x") }),
			Decision{Row: RowFirst, Action: None, Reason: "Node m exists and was not built here; delete it, or give the HostMachine another node name"}},
		{"a Node of the machine is left", with(fresh(), func(in *Input) {
			in.Node = live("old", "boot-x")
			in.Node.MachineUID = "uid-m"
		}), Decision{Row: RowFirst, Action: Assign, Assignment: but(pave(), func(a *Assignment) { a.ExpectedNodeUID = "old" })}},
		{"the host was reset before", with(fresh(), func(in *Input) { in.Host.Report = &Report{Epoch: 4, Stage: StageReset} }),
			Decision{Row: RowFirst, Action: Assign, Assignment: but(pave(), func(a *Assignment) { a.Epoch = 5 })}},
		{"M41: the host was reset by that epoch, as nobody knew when it was assigned", with(told(), func(in *Input) { in.Host.Report = &Report{Epoch: 1, Stage: StageReset} }),
			Decision{Row: RowFirst, Action: Assign, Assignment: but(pave(), func(a *Assignment) { a.Epoch = 2 })}},
		{"M41: and by a later one", with(told(), func(in *Input) { in.Host.Report = &Report{Epoch: 4, Stage: StageReset} }),
			Decision{Row: RowFirst, Action: Assign, Assignment: but(pave(), func(a *Assignment) { a.Epoch = 5 })}},
		{"M41: by an earlier one", with(told(), func(in *Input) {
			in.Machine.Status.Configuration.Assigned.Epoch, in.Machine.Status.Repave.Epoch, in.Machine.Status.Repave.Join.Epoch = 2, 2, 2
			in.Host.Stored.Epoch, in.Host.Report = 2, &Report{Epoch: 1, Stage: StageReset}
		}), Decision{Row: RowTold, Action: None}},
		{"the host is being reset", with(fresh(), func(in *Input) { in.Host.Report = &Report{Epoch: 4, Stage: StageResetting} }), wait},
		{"M6: the shard keeps a reset for it", with(fresh(), func(in *Input) {
			in.Host.Stored = &Stored{Epoch: 4, Mode: hostsv1.ModeReset, MachineUID: "uid-of-before", Version: version(1)}
			in.Host.Report = &Report{Epoch: 3, Stage: StageRunning, Slots: []Slot{{State: hostsv1.SlotRunning, Version: version(1), Epoch: 3, BootID: "b"}}}
		}), Decision{Row: RowFirst, Action: None, Reason: "the host has not taken the reset that the shard keeps for it, epoch 4"}},
		{"the host builds for another machine", with(fresh(), func(in *Input) { in.Host.Report = &Report{Epoch: 4, Stage: StageBuild} }), wait},
		{"M61: the host builds for another machine, and fails", with(fresh(), func(in *Input) { in.Host.Report = &Report{Epoch: 4, Stage: StageBoot, Attempts: 1} }),
			Decision{Row: RowFirst, Action: Assign, Assignment: but(pave(), func(a *Assignment) { a.Epoch = 5 })}},
		{"M61: the host builds for another machine, and waits for a credential", with(fresh(), func(in *Input) {
			in.Host.Report = &Report{Epoch: 4, Stage: StageGuard, CredentialNeeded: true}
			in.Host.Report.Slots = []Slot{{State: hostsv1.SlotRunning, Version: version(1), Epoch: 3, BootID: "boot-1"}}
		}), Decision{Row: RowFirst, Action: Assign, Assignment: but(pave(), func(a *Assignment) { a.Epoch, a.Mode = 5, hostsv1.ModeRepave })}},
	})
}

func but(a Assignment, change func(*Assignment)) Assignment {
	change(&a)
	return a
}

// A host that runs the right node already is taken over: nothing is built.
func TestAdoptMode(t *testing.T) {
	running := func(v hostsv1.VersionReference) Input {
		in := fresh()
		in.Host.Report = &Report{Epoch: 7, Stage: StageRunning, Slots: []Slot{{State: hostsv1.SlotRunning, Version: v, Epoch: 7, BootID: "boot-1"}}}
		in.Node = live("node-1", "boot-1")
		return in
	}
	adopt := Assignment{Mode: hostsv1.ModeAdopt, Epoch: 8, Version: version(1), Reason: ReasonAdopted, ExpectedNodeUID: "node-1"}
	foreign := version(1)
	foreign.UID = "uid-of-before"
	tookOver := func(in *Input) {
		in.Node = Node{Presence: NodeAbsent}
		in.Machine.Status.Configuration = &hostsv1.ConfigurationStatus{Assigned: &hostsv1.AssignedVersion{VersionReference: version(1), Epoch: 8}}
		in.Machine.Status.Repave = &hostsv1.RepaveStatus{Epoch: 8, Mode: hostsv1.ModeAdopt}
		in.Host.Report.Epoch, in.Host.Report.Slots[0].Epoch = 8, 8
		in.Host.Stored = &Stored{Epoch: 8, Mode: hostsv1.ModeAdopt, MachineUID: "uid-m", Version: version(1)}
	}
	test(t, []row{
		{"the HostMachine was made anew", running(version(1)), Decision{Row: RowFirst, Action: Assign, Assignment: adopt}},
		{"what it runs is not what is desired", with(running(version(1)), func(in *Input) { in.Desired.Version = ref(2) }),
			Decision{Row: RowFirst, Action: Assign, Assignment: adopt}},
		{"nothing is desired", with(running(version(1)), func(in *Input) { in.Desired.Version = nil }),
			Decision{Row: RowFirst, Action: Assign, Assignment: adopt}},
		{"paused", with(running(version(1)), func(in *Input) { in.Machine.Spec.Paused = true }), Decision{Row: RowBlocked, Action: None}},
		{"M1: another machine has the node name", with(running(version(1)), func(in *Input) {
			in.Older, in.Desired.Version, in.Desired.Reason, in.Desired.Message = "older", nil, hostsv1.ReasonNodeNameConflict, "older came before"
		}), Decision{Row: RowNoVersion, Action: None, Reason: "older came before"}},
		{"it was built from what does not exist here", running(foreign),
			Decision{Row: RowFirst, Action: None, Reason: "the host runs version 1 of gpu, which does not exist here; set annotation hosts.nstance.dev/retry to build another machine in its place"}},
		{"and the user asks for another", with(running(foreign), func(in *Input) { in.Machine.Annotations = map[string]string{hostsv1.AnnotationRetry: "1"} }),
			Decision{Row: RowFirst, Action: Assign, Assignment: Assignment{Mode: hostsv1.ModeRepave, Epoch: 8, Version: version(1), Reason: ReasonRetried, ExpectedNodeUID: "node-1"}}},
		{"the status was restored from a backup", with(running(version(1)), func(in *Input) { in.Machine.Status = told().Machine.Status }),
			Decision{Row: RowFirst, Action: Assign, Assignment: adopt}},
		{"and the shard keeps what it was told", with(running(version(1)), func(in *Input) {
			in.Machine.Status = told().Machine.Status
			in.Host.Stored = &Stored{Epoch: 7, Mode: hostsv1.ModeRepave, MachineUID: "uid-m", Version: version(1)}
		}), Decision{Row: RowFirst, Action: Recover}},
		{"the shard keeps what an earlier machine was told", with(running(version(1)), func(in *Input) {
			in.Host.Stored = &Stored{Epoch: 7, Mode: hostsv1.ModeRepave, MachineUID: "uid-of-before", Version: version(1)}
		}), Decision{Row: RowFirst, Action: Assign, Assignment: adopt}},
		{"what was taken over has not joined", with(running(version(1)), tookOver), Decision{Row: RowSteady, Action: None}},
		{"and the user asks for another", with(with(running(version(1)), tookOver), func(in *Input) { in.Machine.Annotations = map[string]string{hostsv1.AnnotationRetry: "1"} }),
			Decision{Row: RowSteady, Action: Assign, Assignment: Assignment{Mode: hostsv1.ModeRepave, Epoch: 9, Version: version(1), Reason: ReasonRetried}}},
		{"what was taken over is not told a credential", with(running(version(1)), func(in *Input) {
			in.Machine.Status = told().Machine.Status
			in.Machine.Status.Configuration.Assigned.Epoch, in.Machine.Status.Repave = 8, &hostsv1.RepaveStatus{Epoch: 8, Mode: hostsv1.ModeAdopt}
		}), Decision{Row: RowTold, Action: Publish}},
	})
}

// Row 6: what was assigned is published as often as it takes; M43: with a credential that has half
// of its life before it.
func TestM43_PublishedUntilTheHostHasIt(t *testing.T) {
	republish := Decision{Row: RowTold, Action: Publish}
	renew := Decision{Row: RowTold, Action: Publish, NewCredential: true}
	wait := Decision{Row: RowTold, Action: None}
	old := func(in *Input) {
		in.Machine.Status.Repave.Join.IssuedAt, in.Machine.Status.Repave.Join.ExpiresAt = at(30*time.Minute), at(-30*time.Minute)
	}
	test(t, []row{
		{"the shard has nothing", with(told(), func(in *Input) { in.Host.Stored = nil }), republish},
		{"the shard has the one before", with(repaves(StageIdle), func(in *Input) { in.Host.Stored.Epoch, in.Host.Report.Epoch = 1, 1 }), republish},
		{"and no credential was made", with(told(), func(in *Input) { in.Host.Stored, in.Machine.Status.Repave.Join = nil, nil }), renew},
		{"nor one for this epoch", with(told(), func(in *Input) { in.Host.Stored, in.Machine.Status.Repave.Join.Epoch = nil, 0 }), renew},
		{"paused before the shard had it", with(told(), func(in *Input) { in.Host.Stored, in.Machine.Spec.Paused = nil, true }), Decision{Row: RowBlocked, Action: None}},
		{"paused after", with(told(), func(in *Input) { in.Machine.Spec.Paused = true }), wait},
		{"the configuration is gone: what was assigned stays", with(told(), func(in *Input) { in.Host.Stored, in.Desired.Version = nil, nil }), republish},
		{"the host has not taken it", told(), wait},
		{"nor said anything", with(told(), func(in *Input) { in.Host.Report = nil }), wait},
		{"the leader is new", with(told(), func(in *Input) { in.Host.Stored.CredentialMissing = true }), renew},
		{"while the host builds", with(builds(StageFetch), func(in *Input) { in.Host.Stored.CredentialMissing = true }), renew},
		{"the host has rebooted", with(builds(StageJoin), func(in *Input) { in.Host.Report.CredentialNeeded = true }), renew},
		{"the host has rebooted, and its agent is gone", with(builds(StageJoin), func(in *Input) { in.Host.Report.CredentialNeeded, in.Host.Connected = true, false }),
			Decision{Row: RowBuilding, Action: None}},
		{"another one was made for it a moment ago", with(builds(StageJoin), func(in *Input) {
			in.Host.Report.CredentialNeeded, in.Machine.Status.Repave.Join.IssuedAt = true, at(29*time.Second)
		}), Decision{Row: RowBuilding, Action: None}},
		{"and that was of no use", with(builds(StageJoin), func(in *Input) {
			in.Host.Report.CredentialNeeded, in.Machine.Status.Repave.Join.IssuedAt = true, at(30*time.Second)
		}), renew},
		{"the shard has lost what was made a moment ago", with(told(), func(in *Input) {
			in.Host.Stored.CredentialMissing, in.Machine.Status.Repave.Join.IssuedAt = true, at(time.Second)
		}), republish},
		{"half of its life is over", with(told(), old), renew},
		{"a second before that", with(told(), func(in *Input) {
			old(in)
			in.Machine.Status.Repave.Join.IssuedAt, in.Machine.Status.Repave.Join.ExpiresAt = at(30*time.Minute-time.Second), at(-30*time.Minute-time.Second)
		}), wait},
		{"while the host builds", with(builds(StageBuild), old), renew},
		{"once it has joined none is needed", with(runs(), func(in *Input) {
			old(in)
			in.Host.Stored.CredentialMissing = true
		}), Decision{Row: RowSteady, Action: None}},
		{"once it was given up neither", with(gaveUp(OutcomeHeld), func(in *Input) {
			old(in)
			in.Host.Stored.CredentialMissing = true
		}), Decision{Row: RowFailed, Action: None}},
		{"the instance leaves", with(told(), func(in *Input) { in.Host.Stored, in.Instance.Leaving = nil, "the instance is being drained" }), Decision{Row: RowBlocked, Action: None}},
		{"the shard has lost what runs", with(runs(), func(in *Input) { in.Host.Stored = nil }), republish},
	})
}

// Row 7, M57: while a host builds nothing is decided but what becomes of the Node of before. M50.
func TestM50M57_WhileTheHostBuilds(t *testing.T) {
	wait := Decision{Row: RowBuilding, Action: None}
	impostor := func(stage Stage) Input {
		in := repaves(stage)
		in.Node = live("node-2", "boot-1")
		return in
	}
	remove := Decision{Row: RowBuilding, Action: RemoveNode, Joined: Joined{NodeUID: "node-2", ResourceVersion: "7"}}
	var rows []row
	for _, stage := range []Stage{StageFetch, StageBuild, StageGuard, StageRetire, StageBoot, StageJoin, StageCommit, StageSweep} {
		rows = append(rows, row{"first: " + string(stage), builds(stage), wait}, row{"again: " + string(stage), repaves(stage), wait},
			row{"paused: " + string(stage), with(repaves(stage), func(in *Input) { in.Machine.Spec.Paused = true }), wait},
			row{"nothing is desired: " + string(stage), with(repaves(stage), func(in *Input) { in.Desired.Version = nil }), wait})
	}
	test(t, append(rows, []row{
		{"the machine of the impostor runs on", impostor(StageBuild), wait},
		{"it is stopped", impostor(StageRetire), remove},
		{"the new one boots", impostor(StageBoot), remove},
		{"the new one runs and may take the Node for its own", with(impostor(StageBoot), func(in *Input) { in.Host.Report.Slots = repaves(StageJoin).Host.Report.Slots }), wait},
		{"the new kubelet is waited for", impostor(StageJoin), wait},
		{"a Node of another boot", with(impostor(StageBoot), func(in *Input) { in.Node.BootID = "boot-9" }), wait},
		{"M48: the machine has it, and its host has lost its journal", with(impostor(StageBoot), func(in *Input) { in.Machine.Status.NodeRef.UID = "node-2" }), wait},
		{"it is not known which boot was replaced", with(impostor(StageBoot), func(in *Input) { in.Machine.Status.Repave.ReplacedBootID = "" }), wait},
	}...))
}

// Row 7, M61: what has nothing to go back to is tried for ever. It is replaced once it has failed, where something else is
// desired, a user asks, or its certificates are used up (M43). What replaces something is first given up (M59), and
// what has joined stays.
func TestM43M59M61_WhatIsTriedForEverIsReplaced(t *testing.T) {
	wait := Decision{Row: RowBuilding, Action: None}
	again := func(epoch int64, mode hostsv1.AssignmentMode, v int32) Decision {
		return Decision{Row: RowBuilding, Action: Assign, Assignment: Assignment{Mode: mode, Epoch: epoch, Version: version(v), Reason: ReasonRetried}}
	}
	first := func(stage Stage, attempts int32) Input {
		return with(builds(stage), func(in *Input) { in.Host.Report.Attempts = attempts })
	}
	later := func(stage Stage, attempts int32) Input {
		return with(repaves(stage), func(in *Input) { in.Host.Report.Attempts = attempts })
	}
	other := func(in *Input) { in.Desired.Version = ref(3) }
	asked := func(in *Input) { in.Machine.Annotations = map[string]string{hostsv1.AnnotationRetry: "1"} }
	used := func(in *Input) {
		in.Machine.Status.Repave.Certificates = &hostsv1.CertificateStatus{Epoch: in.Machine.Status.Repave.Epoch, Approved: MostCertificates}
	}
	test(t, []row{
		{"the first, and nothing is asked", first(StageBoot, 9), wait},
		{"another version is desired", with(first(StageFetch, 1), other), again(2, hostsv1.ModePave, 3)},
		{"and it has not failed", with(first(StageFetch, 0), other), wait},
		{"and the machine is paused", with(with(first(StageFetch, 1), other), func(in *Input) { in.Machine.Spec.Paused = true }), Decision{Row: RowBlocked, Action: None}},
		{"nothing is desired any more", with(first(StageFetch, 1), func(in *Input) { in.Desired.Version = nil }), wait},
		{"a user asks", with(first(StageBoot, 1), asked), again(2, hostsv1.ModePave, 1)},
		{"which was asked before", with(with(first(StageBoot, 1), asked), func(in *Input) { in.Machine.Status.Repave.Retry = "1" }), wait},
		{"its certificates are used up", with(first(StageBoot, 1), used), again(2, hostsv1.ModePave, 1)},
		{"and it joins still", with(first(StageJoin, 0), used), wait},
		{"one is left", with(with(first(StageBoot, 1), used), func(in *Input) { in.Machine.Status.Repave.Certificates.Approved-- }), wait},
		{"those of an earlier epoch", with(with(first(StageBoot, 1), used), func(in *Input) { in.Machine.Status.Repave.Certificates.Epoch = 0 }), wait},
		{"a repave that will be given up", with(with(later(StageBoot, 3), used), other), wait},
		{"a repave of a host that has lost what it replaces", with(later(StageBoot, 4), used), again(3, hostsv1.ModeRepave, 2)},
		{"which a user asks for", with(later(StageBoot, 4), asked), again(3, hostsv1.ModeRepave, 2)},
		{"what has joined, and cannot be swept", with(first(StageSweep, 9), other), wait},
		{"what has joined, and cannot be written down", with(first(StageCommit, 9), asked), wait},
		{"what had joined", with(with(first(StageBoot, 9), other), func(in *Input) {
			in.Machine.Status.NodeRef, in.Node = &hostsv1.NodeReference{Name: "m", UID: "node-1"}, live("node-1", "boot-0")
		}), wait},
	})
}

// Row 7, M61: what had joined and is built again, because the host has lost its journal, gets an epoch and a
// credential of its own: nothing would come for the one that has joined.
func TestM61_AHostThatHasForgottenItsMachine(t *testing.T) {
	forgot := func() Input {
		in := runs()
		in.Desired.Version = ref(2) // nobody has asked for it
		in.Host.Report = &Report{Epoch: 1, Stage: StageGuard, CredentialNeeded: true}
		return in
	}
	again := func(node string) Decision {
		return Decision{Row: RowBuilding, Action: Assign, Assignment: Assignment{
			Mode: hostsv1.ModeRepave, Epoch: 2, Version: version(1), Reason: ReasonRetried, ExpectedNodeUID: node,
		}}
	}
	wait := Decision{Row: RowBuilding, Action: None}
	test(t, []row{
		{"its Node is there", forgot(), again("node-1")},
		{"its Node is gone", with(forgot(), func(in *Input) { in.Node = Node{Presence: NodeAbsent} }), again("")},
		{"the machine ended before it heard that it has joined", with(forgot(), func(in *Input) { in.Host.Report.Stage = StageBoot }), again("node-1")},
		{"what it was to take over is gone", with(forgot(), func(in *Input) {
			in.Machine.Status.Repave.Mode = hostsv1.ModeAdopt
			in.Host.Report = &Report{Epoch: 1, Stage: StageFailed, Failure: &Failure{Epoch: 1, Reason: "AdoptRefused", Outcome: OutcomeKept}}
		}), again("node-1")},
		{"it is paused", with(forgot(), func(in *Input) { in.Machine.Spec.Paused = true }), Decision{Row: RowBlocked, Action: None}},
		{"a machine runs", with(forgot(), func(in *Input) { in.Host.Report.Slots = runs().Host.Report.Slots }), wait},
		{"it can go on", with(forgot(), func(in *Input) { in.Host.Report.CredentialNeeded = false }), wait},
		{"it is not taken for joined", with(forgot(), func(in *Input) { in.Host.Stored.Confirmed = "" }),
			Decision{Row: RowTold, Action: Publish, NewCredential: true}},
	})
}

// Row 8: M44 to M48, M58: a Node is the machine's only with the boot of the machine, and heard of.
func TestM46M48M58_Joined(t *testing.T) {
	join := func() Input {
		in := repaves(StageJoin)
		in.Node = live("node-2", "boot-2")
		return in
	}
	confirm := Decision{Row: RowJoined, Action: Confirm, Joined: Joined{NodeUID: "node-2", ResourceVersion: "7", Version: version(2), BootID: "boot-2", Epoch: 2}}
	wait := Decision{Row: RowBuilding, Action: None}
	test(t, []row{
		{"the boot is the one that the host reports", join(), confirm},
		{"the first time", with(builds(StageJoin), func(in *Input) { in.Node = live("node-1", "boot-1") }),
			Decision{Row: RowJoined, Action: Confirm, Joined: Joined{NodeUID: "node-1", ResourceVersion: "7", Version: version(1), BootID: "boot-1", Epoch: 1}}},
		{"a Node that is not ready has joined", with(join(), func(in *Input) { in.Node.Ready = false }), confirm},
		{"another boot", with(join(), func(in *Input) { in.Node.BootID = "boot-1" }), wait},
		{"no boot", with(join(), func(in *Input) { in.Node.BootID = "" }), wait},
		{"neither has one", with(join(), func(in *Input) { in.Node.BootID, in.Host.Report.Slots[0].BootID = "", "" }), wait},
		{"not heard of for more than two minutes", with(join(), func(in *Input) { in.Node.Heartbeat = now.Add(-2*time.Minute - time.Second) }), wait},
		{"heard of two minutes ago", with(join(), func(in *Input) { in.Node.Heartbeat = now.Add(-2 * time.Minute) }), confirm},
		{"no Node", repaves(StageJoin), wait},
		{"paused", with(join(), func(in *Input) { in.Machine.Spec.Paused = true }), confirm},
		{"nothing is desired any more", with(join(), func(in *Input) { in.Desired.Version = nil }), confirm},
		{"something newer is desired", with(join(), func(in *Input) { in.Desired.Version = ref(3) }), confirm},
		{"the old slot runs, and its Node", with(join(), func(in *Input) {
			in.Host.Report = repaves(StageBuild).Host.Report
			in.Node = live("node-2", "boot-1")
		}), wait},
		{"the status says so, the Node does not", with(runs(), func(in *Input) { in.Node.Marked = false }),
			Decision{Row: RowJoined, Action: Confirm, Joined: Joined{NodeUID: "node-1", ResourceVersion: "7", Version: version(1), BootID: "boot-1", Epoch: 1}}},
		{"the host was not told", with(runs(), func(in *Input) { in.Host.Stored.Confirmed, in.Host.Report.Stage = "", StageJoin }),
			Decision{Row: RowJoined, Action: Confirm, Joined: Joined{NodeUID: "node-1", ResourceVersion: "7", Version: version(1), BootID: "boot-1", Epoch: 1}}},
		{"the host was not told, and the Node is gone by now", with(runs(), func(in *Input) {
			in.Host.Stored.Confirmed, in.Host.Report.Stage = "", StageJoin
			in.Node = Node{Presence: NodeAbsent, Confirmed: true}
		}), Decision{Row: RowMissed, Action: Assign, Assignment: Assignment{Mode: hostsv1.ModeRepave, Epoch: 2, Version: version(1), Reason: ReasonNodeDeleted}}},
		{"the host has booted again before it was told: it is told of that boot", with(runs(), func(in *Input) {
			in.Host.Report.Stage, in.Host.Report.Slots[0].BootID, in.Node.BootID = StageJoin, "boot-8", "boot-8"
		}), Decision{Row: RowJoined, Action: Confirm, Joined: Joined{NodeUID: "node-1", ResourceVersion: "7", Version: version(1), BootID: "boot-8", Epoch: 1}}},
		{"and while it waits to try again", with(runs(), func(in *Input) {
			in.Host.Report.Stage, in.Host.Report.Slots[0].BootID, in.Node.BootID = StageBoot, "boot-8", "boot-8"
		}), Decision{Row: RowJoined, Action: Confirm, Joined: Joined{NodeUID: "node-1", ResourceVersion: "7", Version: version(1), BootID: "boot-8", Epoch: 1}}},
		{"and its Node is gone by now: nobody has seen it in that boot", with(runs(), func(in *Input) {
			in.Host.Report.Stage, in.Host.Report.Slots[0].BootID = StageJoin, "boot-8"
			in.Node = Node{Presence: NodeAbsent, Confirmed: true}
		}), Decision{Row: RowMissed, Action: Assign, Assignment: Assignment{Mode: hostsv1.ModeRepave, Epoch: 2, Version: version(1), Reason: ReasonNodeDeleted}}},
		{"its Node was not seen with that boot yet", with(runs(), func(in *Input) {
			in.Host.Report.Stage, in.Host.Report.Slots[0].BootID = StageJoin, "boot-8"
		}), wait},
		{"the host was told, and boots again: nothing is said", with(runs(), func(in *Input) {
			in.Host.Report.Slots[0].BootID, in.Node.BootID = "boot-8", "boot-8"
		}), Decision{Row: RowSteady, Action: None}},
		{"the same version was built again", with(join(), func(in *Input) {
			in.Machine.Status.Configuration.Assigned.VersionReference = version(1)
			in.Host.Report.Slots[0].Version = version(1)
		}), Decision{Row: RowJoined, Action: Confirm, Joined: Joined{NodeUID: "node-2", ResourceVersion: "7", Version: version(1), BootID: "boot-2", Epoch: 2}}},
		{"M48: what was gone back to had a Node, and the host has built it after all", with(join(), func(in *Input) { in.Machine.Status.NodeRef.UID = "node-1" }), confirm},
		{"and that Node is gone, and nothing has joined", with(join(), func(in *Input) {
			in.Machine.Status.NodeRef.UID, in.Node = "node-1", Node{Presence: NodeAbsent, Confirmed: true}
		}), wait},
		{"the host commits meanwhile", with(join(), func(in *Input) { in.Host.Report.Stage = StageRunning }), confirm},
		{"the host has rebooted: the Node has another boot and stays", with(runs(), func(in *Input) { in.Node.BootID = "boot-8" }), Decision{Row: RowSteady, Action: None}},
		{"the shard is out of sight", with(join(), func(in *Input) { in.Host.Known = false }), Decision{Row: RowBlocked, Action: None}},
	})
}

// Row 9: M49 to M53.
func TestM49M50M51M53_TheNodeIsGone(t *testing.T) {
	repave := Decision{Row: RowMissed, Action: Assign, Assignment: Assignment{Mode: hostsv1.ModeRepave, Epoch: 2, Version: version(2), Reason: ReasonNodeDeleted}}
	held := func(row Row, reason, message string) Decision {
		return Decision{Row: row, Action: None, Held: Held{reason, message}}
	}
	test(t, []row{
		{"deleted", missing(), repave},
		{"M49: and the version is the same", with(missing(), func(in *Input) { in.Desired.Version = ref(1) }),
			Decision{Row: RowMissed, Action: Assign, Assignment: Assignment{Mode: hostsv1.ModeRepave, Epoch: 2, Version: version(1), Reason: ReasonNodeDeleted}}},
		{"M50: its kubelet made another one", with(missing(), func(in *Input) {
			in.Node = live("node-2", "boot-1")
			in.Node.Confirmed = true
		}), Decision{Row: RowMissed, Action: Assign, Assignment: Assignment{
			Mode: hostsv1.ModeRepave, Epoch: 2, Version: version(2), Reason: ReasonNodeReplaced, ExpectedNodeUID: "node-2", Cordon: "node-2"}}},
		{"M52: seen once", with(missing(), func(in *Input) { in.Node.Confirmed = false }), Decision{Row: RowMissed, Action: LookAgain}},
		{"M52: unknown", with(missing(), func(in *Input) { in.Node = Node{Presence: NodeUnknown, Confirmed: true, Why: "i/o timeout"} }), Decision{Row: RowBlocked, Action: None}},
		{"M51: it is there", with(missing(), func(in *Input) {
			in.Node = runs().Node
			in.Node.Confirmed = true
		}), Decision{Row: RowOutdated, Action: None}},
		{"the agent is away: the shard tells it later", with(missing(), func(in *Input) { in.Host.Connected = false }), repave},
		{"the instance is stopped", with(missing(), func(in *Input) { in.Instance.Running = false }), repave},
		{"M53: on hold for power", with(missing(), func(in *Input) { in.Instance.PowerHeld = true }), held(RowBlocked, HeldPower, "the instance is on hold for power: it is off, or is about to be switched")},
		{"M53: paused", with(missing(), func(in *Input) { in.Machine.Spec.Paused = true }), held(RowBlocked, HeldPaused, "the HostMachine is paused")},
		{"M53: the instance leaves", with(missing(), func(in *Input) { in.Instance.Leaving = "the instance is condemned: expired" }), held(RowBlocked, HeldLeaving, "the instance is condemned: expired")},
		{"M53: the inventory is incomplete", with(missing(), func(in *Input) { in.Instance.Complete = false }), held(RowBlocked, HeldIncomplete, "shard a has not said all that it knows")},
		{"M53: the HostMachine is being deleted", deleted(missing(), 0), Decision{Row: RowDeleting, Action: Assign, Assignment: Assignment{Mode: hostsv1.ModeReset, Epoch: 2, Version: version(1), Reason: ReasonDeleting}}},
		{"nothing can be built", with(missing(), func(in *Input) { in.Desired = Desired{Reason: hostsv1.ReasonNoMatch, Message: "no selector matches"} }), held(RowNoVersion, hostsv1.ReasonNoMatch, "no selector matches")},
		{"M87: the brake is on", with(missing(), func(in *Input) { in.Braked = "one by one" }), held(RowMissed, HeldBrake, "one by one")},
		{"M87: the brake waits for the second look too", with(missing(), func(in *Input) { in.Braked, in.Node.Confirmed = "one by one", false }), Decision{Row: RowMissed, Action: LookAgain}},
		{"M87: the first pave is not braked", with(fresh(), func(in *Input) { in.Braked = "one by one" }), Decision{Row: RowFirst, Action: Assign, Assignment: pave()}},
		{"deleted again while the host commits", with(repaves(StageCommit), func(in *Input) {
			in.Machine.Status.NodeRef.UID = "node-2"
			in.Machine.Status.Configuration.Applied.VersionReference = version(2)
			in.Host.Stored.Confirmed = "node-2"
			in.Node.Confirmed = true
		}), Decision{Row: RowBuilding, Action: None}},
		{"a crash after the status was written: nothing is assigned twice", with(repaves(StageRunning), func(in *Input) {
			in.Host.Report = runs().Host.Report
			in.Host.Stored = runs().Host.Stored
			in.Node.Confirmed = true
		}), Decision{Row: RowTold, Action: Publish}},
	})
}

// Row 10: M59, M60, M61.
func TestM59M60M61_GivenUp(t *testing.T) {
	back := Decision{Row: RowFailed, Action: Confirm, Joined: Joined{NodeUID: "node-2", ResourceVersion: "7", Version: version(1)}}
	wait := Decision{Row: RowFailed, Action: None}
	again := func(v int32) Decision {
		return Decision{Row: RowFailed, Action: Assign, Assignment: Assignment{Mode: hostsv1.ModeRepave, Epoch: 3, Version: version(v), Reason: ReasonRetried, ExpectedNodeUID: "node-2"}}
	}
	known := func(in *Input) {
		in.Machine.Status.NodeRef.UID = "node-2"
		in.Node.Marked = true
	}
	test(t, []row{
		{"reverted, and the Node is there again", gaveUp(OutcomeReverted), back},
		{"never replaced, and the Node is there again", gaveUp(OutcomeKept), back},
		{"the Node is not there yet", with(gaveUp(OutcomeReverted), func(in *Input) { in.Node = Node{Presence: NodeAbsent} }), wait},
		{"a Node of another boot", with(gaveUp(OutcomeReverted), func(in *Input) { in.Node.BootID = "boot-2" }), wait},
		{"everybody knows", with(gaveUp(OutcomeReverted), known), wait},
		{"marks were changed by hand", with(gaveUp(OutcomeReverted), func(in *Input) {
			known(in)
			in.Node.Marked = false
		}), back},
		{"held", gaveUp(OutcomeHeld), wait},
		{"held, and its Node joins late", with(gaveUp(OutcomeHeld), func(in *Input) { in.Node = live("node-2", "boot-2") }), wait},
		{"another version is desired", with(gaveUp(OutcomeReverted), func(in *Input) {
			known(in)
			in.Desired.Version = ref(3)
		}), again(3)},
		{"M68: and a rollout brings it to that in its turn", with(gaveUp(OutcomeReverted), func(in *Input) {
			known(in)
			in.Desired.Version, in.Rolled = ref(3), true
		}), wait},
		{"M68: but nothing is there to be drained", with(gaveUp(OutcomeHeld), func(in *Input) {
			in.Node = Node{Presence: NodeAbsent}
			in.Desired.Version, in.Rolled = ref(3), true
		}), Decision{Row: RowFailed, Action: Assign, Assignment: Assignment{Mode: hostsv1.ModeRepave, Epoch: 3, Version: version(3), Reason: ReasonRetried}}},
		{"and the machine is paused", with(gaveUp(OutcomeReverted), func(in *Input) {
			known(in)
			in.Desired.Version, in.Machine.Spec.Paused = ref(3), true
		}), Decision{Row: RowBlocked, Action: None}},
		{"the user asks for another try", with(gaveUp(OutcomeReverted), func(in *Input) { in.Machine.Annotations = map[string]string{hostsv1.AnnotationRetry: "2"} }), again(2)},
		{"which was asked for before", with(gaveUp(OutcomeReverted), func(in *Input) {
			known(in)
			in.Machine.Annotations = map[string]string{hostsv1.AnnotationRetry: "2"}
			in.Machine.Status.Repave.Retry = "2"
		}), wait},
		{"the Node is deleted again", with(gaveUp(OutcomeReverted), func(in *Input) {
			known(in)
			in.Node = Node{Presence: NodeAbsent, Confirmed: true}
		}), Decision{Row: RowMissed, Action: Assign, Assignment: Assignment{Mode: hostsv1.ModeRepave, Epoch: 3, Version: version(2), Reason: ReasonNodeDeleted}}},
		{"nothing is desired any more", with(gaveUp(OutcomeReverted), func(in *Input) {
			known(in)
			in.Desired.Version = nil
		}), wait},
		{"what failed is an earlier assignment", with(repaves(StageBuild), func(in *Input) { in.Host.Report.Failure = &Failure{Epoch: 1, Reason: "FetchFailed"} }), Decision{Row: RowBuilding, Action: None}},
	})
}

// Rows 11 and 12: M45, M47.
func TestM45_Steady(t *testing.T) {
	mark := Joined{NodeUID: "node-1", ResourceVersion: "7", Version: version(1)}
	test(t, []row{
		{"nothing is to be done", runs(), Decision{Row: RowSteady, Action: None}},
		{"something newer is desired", with(runs(), func(in *Input) { in.Desired.Version = ref(2) }), Decision{Row: RowOutdated, Action: None}},
		{"nothing is desired", with(runs(), func(in *Input) { in.Desired.Version = nil }), Decision{Row: RowSteady, Action: None}},
		{"the agent is away", with(runs(), func(in *Input) { in.Host.Connected = false }), Decision{Row: RowSteady, Action: None}},
		{"marks were changed by hand while the host reboots", with(runs(), func(in *Input) { in.Node.Marked, in.Node.BootID = false, "boot-8" }),
			Decision{Row: RowSteady, Action: Mark, Joined: mark}},
	})
}

// M6: the host is reset if it answers within ten minutes, and released.
func TestM6_Deletion(t *testing.T) {
	resets := func(stage Stage, since time.Duration) Input {
		in := deleted(runs(), since)
		in.Machine.Status.Configuration.Assigned.Epoch = 2
		in.Machine.Status.Repave = &hostsv1.RepaveStatus{Epoch: 2, Mode: hostsv1.ModeReset, Reason: ReasonDeleting}
		in.Host.Stored = &Stored{Epoch: 2, Mode: hostsv1.ModeReset, MachineUID: "uid-m", Version: version(1)}
		in.Host.Report = &Report{Epoch: 2, Stage: stage}
		return in
	}
	release := Decision{Row: RowDeleting, Action: Release}
	wait := Decision{Row: RowDeleting, Action: None}
	skipped := func(why string) Decision {
		return Decision{Row: RowDeleting, Action: Release, Skipped: why, ResetKept: true}
	}
	nothingKnown := func(in *Input) { in.Host, in.Instance.Complete = Host{}, false }
	reset := Decision{Row: RowDeleting, Action: Assign, Assignment: Assignment{Mode: hostsv1.ModeReset, Epoch: 2, Version: version(1), Reason: ReasonDeleting}}
	test(t, []row{
		{"the host runs a node", deleted(runs(), 0), reset},
		{"paused", with(deleted(runs(), 0), func(in *Input) { in.Machine.Spec.Paused = true }), reset},
		{"the host builds", deleted(builds(StageBuild), 0), reset},
		{"the instance leaves", with(deleted(runs(), 0), func(in *Input) { in.Instance.Leaving = "the instance is condemned: scale-down" }), reset},
		{"the instance is gone", with(deleted(runs(), 0), func(in *Input) { in.Instance.Gone = true }), release},
		{"the host was told nothing", deleted(fresh(), 0), release},
		{"the shard keeps what an earlier machine was told", with(deleted(fresh(), 0), func(in *Input) { in.Host.Stored = &Stored{Epoch: 1, Version: version(1)} }), reset},
		{"nothing of ours holds it", with(deleted(runs(), 0), func(in *Input) { in.Machine.Finalizers = nil }), wait},
		{"the shard has not heard of the reset", with(resets(StageRunning, 0), func(in *Input) { in.Host.Stored = runs().Host.Stored }), Decision{Row: RowDeleting, Action: Publish}},
		{"the host has not heard of it", with(resets(StageRunning, 0), func(in *Input) { in.Host.Report.Epoch = 1 }), wait},
		{"the host resets itself", resets(StageResetting, 5*time.Minute), wait},
		{"which takes longer", resets(StageResetting, 15*time.Minute), wait},
		{"the host was reset", resets(StageReset, 15*time.Minute), release},
		{"another reset than this", with(resets(StageReset, 0), func(in *Input) { in.Host.Report.Epoch = 1 }), wait},
		{"its agent is away", with(resets(StageRunning, 9*time.Minute), func(in *Input) { in.Host.Connected, in.Host.Report = false, nil }), wait},
		{"for ten minutes", with(resets(StageRunning, 10*time.Minute), func(in *Input) { in.Host.Connected, in.Host.Report = false, nil }),
			skipped("the host was not reset within 10m0s: its agent is not connected")},
		{"it went away while it reset itself", with(resets(StageResetting, 11*time.Minute), func(in *Input) { in.Host.Connected = false }),
			skipped("the host was not reset within 10m0s: its agent is not connected")},
		{"it cannot be reset", with(resets(StageFailed, 10*time.Minute), func(in *Input) {
			in.Host.Report.Failure = &Failure{Epoch: 2, Reason: "ResetFailed", Message: "a mount is busy"}
		}),
			skipped("the host was not reset within 10m0s: a mount is busy")},
		{"the deletion was seen by nobody for long: the host is told all the same", deleted(runs(), time.Hour), reset},
		{"and has ten minutes from then on", with(resets(StageRunning, time.Hour), func(in *Input) {
			in.Machine.Status.Repave.StartedAt = at(9 * time.Minute)
		}), wait},
		{"and no more", with(resets(StageRunning, time.Hour), func(in *Input) {
			in.Machine.Status.Repave.StartedAt = at(10 * time.Minute)
		}), skipped("the host was not reset within 10m0s")},
		{"the shard is out of sight: it is told when it is back", with(deleted(runs(), 10*time.Minute), nothingKnown), reset},
		{"the shard stays out of sight", with(resets(StageRunning, 10*time.Minute), nothingKnown),
			Decision{Row: RowDeleting, Action: Release, Skipped: "the host was not reset within 10m0s: its agent is not connected"}},
		{"the shard may keep what the status does not know", with(deleted(fresh(), 0), nothingKnown),
			Decision{Row: RowDeleting, Action: None, Reason: "the shard has not said what it keeps for the host"}},
		{"the reset reaches the shard late, and stays there for the host", with(resets(StageRunning, time.Hour), func(in *Input) { in.Host.Stored = runs().Host.Stored }),
			Decision{Row: RowDeleting, Action: Publish}},
	})
}

// M47: ready is joined, ready, and running what is assigned. The phases, the first that applies.
func TestM47_PhasesAndConditions(t *testing.T) {
	for _, tt := range []struct {
		name  string
		in    Input
		phase hostsv1.HostMachinePhase
		want  string // conditions that are said, as Type=Status/Reason
	}{
		{"ready", runs(), hostsv1.PhaseReady, "Ready=True/NodeReady NodeJoined=True/Joined Paved=True/Running AgentConnected=True/Connected PreflightPassed=True/Passed RepaveFailed=False/NotFailed ConfigurationDrifted=False/NoDrift"},
		{"M85: it is off on purpose", with(runs(), func(in *Input) { in.Instance.Off, in.Instance.PowerHeld, in.Node.Ready = true, true, false }), hostsv1.PhaseOff, "Ready=False/NodeNotReady"},
		{"the Node is not ready", with(runs(), func(in *Input) { in.Node.Ready = false }), hostsv1.PhaseNotReady, "Ready=False/NodeNotReady NodeJoined=True/Joined"},
		{"another version is assigned", with(runs(), func(in *Input) { in.Machine.Status.Configuration.Assigned.VersionReference = version(2) }), hostsv1.PhaseNotReady, "Ready=False/NotAssignedVersion"},
		{"the agent is away", with(runs(), func(in *Input) { in.Host.Connected = false }), hostsv1.PhaseReady, "Ready=True/NodeReady AgentConnected=False/Silent"},
		{"no paver", with(fresh(), func(in *Input) { in.Host.Connected, in.Host.Report = false, nil }), hostsv1.PhaseProvisioning, "AgentConnected=False/NoPaver PreflightPassed=Unknown/NoReport"},
		{"the instance does not run yet", with(fresh(), func(in *Input) { in.Instance.Running = false }), hostsv1.PhasePending, "Paved=False/NotAssigned"},
		{"M12: nothing is selected", with(fresh(), func(in *Input) { in.Desired.Version = nil }), hostsv1.PhaseAwaitingConfiguration, "Paved=False/NotAssigned"},
		{"M1: the name is taken", with(fresh(), func(in *Input) { in.Older, in.Desired.Version = "older", nil }), hostsv1.PhaseFailed, ""},
		{"the host is not fit", with(fresh(), func(in *Input) { in.Host.Report.Preflight = []Check{{ID: "cgroup-v2", Failed: true}} }), hostsv1.PhaseNotReady, "PreflightPassed=False/CgroupV2"},
		{"told", told(), hostsv1.PhasePaving, "Paved=False/Waiting NodeJoined=False/Waiting"},
		{"fetch", builds(StageFetch), hostsv1.PhasePaving, "Paved=False/Fetching"},
		{"build", builds(StageBuild), hostsv1.PhasePaving, "Paved=False/Building"},
		{"boot", builds(StageBoot), hostsv1.PhasePaving, "Paved=False/Booting"},
		{"join", builds(StageJoin), hostsv1.PhaseJoining, "Paved=True/Running NodeJoined=False/Waiting Ready=False/Waiting"},
		{"build again", repaves(StageBuild), hostsv1.PhaseRepaving, "Paved=False/Building NodeJoined=False/Waiting"},
		{"retire", repaves(StageRetire), hostsv1.PhaseRepaving, "Paved=False/Retiring"},
		{"join again", repaves(StageJoin), hostsv1.PhaseJoining, "Paved=True/Running"},
		{"gone", missing(), hostsv1.PhaseNotReady, "NodeJoined=False/Gone Ready=False/Gone"},
		{"M60: reverted", gaveUp(OutcomeReverted), hostsv1.PhaseNotReady, "RepaveFailed=True/Reverted"},
		{"M60: held", gaveUp(OutcomeHeld), hostsv1.PhaseFailed, "RepaveFailed=True/Held"},
		{"M59: never replaced", gaveUp(OutcomeKept), hostsv1.PhaseNotReady, "RepaveFailed=True/JoinTimeout"},
		{"M98: drift", with(runs(), func(in *Input) { in.Host.Report.Drifted = 2 }), hostsv1.PhaseReady, "ConfigurationDrifted=True/FilesChanged Ready=True/NodeReady"},
		{"deleting", deleted(runs(), 0), hostsv1.PhaseDeleting, ""},
		{"M2: another provisioner", with(fresh(), func(in *Input) { in.Machine.Spec.Instance = nil }), hostsv1.PhasePending, "Ready=Unknown/NoController Paved=Unknown/NoController"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Decide(tt.in, now)
			if d.Phase != tt.phase {
				t.Errorf("phase %s, want %s", d.Phase, tt.phase)
			}
			for _, said := range strings.Fields(tt.want) {
				name, rest, _ := strings.Cut(said, "=")
				c := meta.FindStatusCondition(d.Conditions, name)
				if c == nil || string(c.Status)+"/"+c.Reason != rest || c.Message == "" {
					t.Errorf("condition %s is %+v, want %s", name, c, rest)
				}
			}
		})
	}
}

// A leader that a host has not reported to changes nothing of what was known of it, but that
// something else was assigned since.
func TestConditionsStayWithANewLeader(t *testing.T) {
	silent := func(in Input) Input {
		in.Machine = in.Machine.DeepCopy()
		if in.Machine.Status.Repave != nil {
			in.Machine.Status.Repave.Stage = string(StageRunning)
		}
		in.Machine.Status.Conditions = Decide(in, now).Conditions
		in.Host.Report = nil
		return in
	}
	drift := with(runs(), func(in *Input) { in.Host.Report.Drifted = 2 })
	d := Decide(silent(drift), now)
	if diff := cmp.Diff(Decide(drift, now).Conditions, d.Conditions); diff != "" || d.Phase != hostsv1.PhaseReady {
		t.Errorf("phase %s, conditions: %s", d.Phase, diff)
	}
	in := silent(runs())
	in.Machine.Status.Configuration.Assigned.Epoch, in.Machine.Status.NodeRef.UID = 2, ""
	in.Machine.Status.Repave = &hostsv1.RepaveStatus{Epoch: 2, Mode: hostsv1.ModeRepave}
	if c := meta.FindStatusCondition(Decide(in, now).Conditions, hostsv1.ConditionPaved); c.Status != metav1.ConditionFalse || c.Reason != hostsv1.ReasonWaiting {
		t.Errorf("what was assigned since is said to be built: %+v", c)
	}
}

// How far a build is stands in a condition, in tenths, so that it is not written with each report.
func TestM44_Progress(t *testing.T) {
	for _, tt := range []struct {
		progress Progress
		want     string
	}{
		{Progress{}, "version 1 of gpu is being built"},
		{Progress{What: "unpacking"}, "version 1 of gpu is being built: unpacking"},
		{Progress{What: "layer 2 of 5", Done: 399, Total: 1000}, "version 1 of gpu is being built: layer 2 of 5, 30%"},
		{Progress{What: "layer 2 of 5", Done: 301, Total: 1000}, "version 1 of gpu is being built: layer 2 of 5, 30%"},
		{Progress{What: "layer 2 of 5", Done: 1 << 62, Total: 1 << 62}, "version 1 of gpu is being built: layer 2 of 5, 100%"},
		{Progress{What: "layer 2 of 5", Done: 7, Total: 3}, "version 1 of gpu is being built: layer 2 of 5, 100%"},
		{Progress{What: "layer 2 of 5", Done: -7, Total: 3}, "version 1 of gpu is being built: layer 2 of 5"},
	} {
		in := builds(StageFetch)
		in.Host.Report.Progress = tt.progress
		if c := meta.FindStatusCondition(Decide(in, now).Conditions, hostsv1.ConditionPaved); c.Message != tt.want {
			t.Errorf("%+v: %q, want %q", tt.progress, c.Message, tt.want)
		}
	}
}

// What nobody says now stays as it was: a shard that is out of sight, or a Node that cannot be asked
// for, changes no condition.
func TestConditionsStayWhileNothingIsKnown(t *testing.T) {
	before := Decide(runs(), now).Conditions
	for name, in := range map[string]Input{
		"shard": with(runs(), func(in *Input) { in.Host, in.Instance.Complete = Host{}, false }),
		"Node":  with(runs(), func(in *Input) { in.Node = Node{Presence: NodeUnknown, Why: "403"} }),
	} {
		in.Machine.Status.Conditions = before
		d := Decide(in, now)
		if diff := cmp.Diff(before, d.Conditions); diff != "" || d.Phase != hostsv1.PhaseReady {
			t.Errorf("%s: phase %s, conditions: %s", name, d.Phase, diff)
		}
	}
}
