//go:build hosts

package hosts_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"nstance.dev/agent/paver/journal"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// paved is a host that runs content 1 in slot a.
func paved(t *testing.T, machines string) *box {
	t.Helper()
	b := newBox(t, machines)
	b.start()
	b.order(b.assignment(1, pave, "1"))
	b.expectOne(b.until("running", 3*time.Minute, running(1)))
	return b
}

func failed(s *nstancev1.MachineStatus) bool { return s.GetFailure() != nil }

// TestM44M49M54_Repave: a machine that is built, replaced, and gone back to, with what each takes.
func TestM44M49M54_Repave(t *testing.T) {
	b := paved(t, "")
	first := slotOf(b.status, "a").GetBootId()
	if b.registry.server.URL == "" || !b.nodes.heard(first) {
		t.Logf("boots that were heard: %v", b.nodes.all())
	}
	began := time.Now()
	b.order(b.assignment(2, repave, "2"))
	b.eventually("the kubelet of the old machine stopped", 5*time.Second, func() bool { return !b.kubeletRuns(journal.A) })
	t.Logf("the kubelet was stopped after %v", time.Since(began).Round(time.Millisecond))
	s := b.until("running", 3*time.Minute, running(2))
	t.Logf("repaved after %v", time.Since(began).Round(time.Millisecond))
	b.expectOne(s)
	if s.GetActiveSlot() != "b" || s.GetPrevious().GetVersion() != 1 || slotOf(s, "b").GetBootId() == first {
		t.Errorf("%v", s)
	}
	if text, err := os.ReadFile(b.path("machines/node-b/etc/content")); err != nil || string(text) != "2" {
		t.Errorf("content %q, %v", text, err)
	}

	began = time.Now()
	b.order(b.assignment(3, repave, "1"))
	s = b.until("running", time.Minute, running(3))
	took := time.Since(began)
	t.Logf("back on content 1 after %v", took.Round(time.Millisecond))
	b.expectOne(s)
	if s.GetActiveSlot() != "a" || took > 15*time.Second {
		t.Errorf("M39: after %v: %v", took, s)
	}

	out, err := b.command("status").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "a (active)") || !strings.Contains(string(out), "epoch 3: running") {
		t.Errorf("status: %v: %s", err, out)
	}
	for _, place := range []string{"log", "state"} { // M43
		if out, _ := exec.Command("grep", "--recursive", "--files-with-matches", "marked-token", b.path(place)).Output(); len(out) > 0 {
			t.Errorf("the token is in %s", out)
		}
	}
}

// TestM63_HowLongItTakes: ten repaves with an image that is in the cache, each with content that no slot
// holds, and one with an image that has to be fetched first.
func TestM63_HowLongItTakes(t *testing.T) {
	b := paved(t, "")
	repaved := func(a *nstancev1.MachineAssignment) time.Duration {
		t.Helper()
		began := time.Now()
		b.order(a)
		b.until("running", 10*time.Minute, func(s *nstancev1.MachineStatus) bool { return running(a.GetEpoch())(s) || failed(s) })
		if b.status.GetFailure() != nil {
			t.Fatalf("%v\n%s", b.status, b.logEnd())
		}
		return time.Since(began)
	}
	var took []time.Duration
	for epoch := int64(2); epoch < 12; epoch++ {
		took = append(took, repaved(b.assignment(epoch, repave, fmt.Sprint(2+epoch%3))).Round(time.Millisecond))
	}
	slices.Sort(took)
	t.Logf("ten repaves: %v", took)
	if median := (took[4] + took[5]) / 2; median > time.Minute {
		t.Errorf("the median is %v, of %v", median, took)
	}

	const download = 300 << 20
	large := b.registry.large(t, archive(t), download)
	a := b.assignment(12, repave, "5")
	a.Template.Image = &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Archive{Archive: large}}
	whole := repaved(a)
	t.Logf("with %d MB to download: %v", download>>20, whole.Round(time.Millisecond))
	if whole > 5*time.Minute {
		t.Errorf("with a download it takes %v", whole)
	}
}

// kubeletRuns looks into a machine.
func (b *box) kubeletRuns(slot journal.Slot) bool {
	out, err := exec.Command("pgrep", "--full", "--count", "/bin/bash /usr/local/bin/kubelet|/usr/local/bin/kubelet --config").Output()
	return err == nil && strings.TrimSpace(string(out)) != "0" && b.members(slot) > 0
}

const kills = 30

// TestM58_KilledAtEachStage: with SIGKILL, of the paver and now and then of a machine's
// systemd-nspawn. In the end one machine runs, its kubelet was heard from, and nothing is left.
func TestM58_KilledAtEachStage(t *testing.T) {
	b := paved(t, "")
	rng := rand.New(rand.NewPCG(1, 2))
	stages := []nstancev1.MachineStage{
		nstancev1.MachineStage_MACHINE_STAGE_FETCH, nstancev1.MachineStage_MACHINE_STAGE_BUILD, nstancev1.MachineStage_MACHINE_STAGE_GUARD,
		nstancev1.MachineStage_MACHINE_STAGE_RETIRE, nstancev1.MachineStage_MACHINE_STAGE_BOOT, nstancev1.MachineStage_MACHINE_STAGE_JOIN,
		nstancev1.MachineStage_MACHINE_STAGE_COMMIT, nstancev1.MachineStage_MACHINE_STAGE_SWEEP,
	}
	hit := map[string]int{}
	for i := range kills {
		epoch := int64(i + 2)
		stage := stages[i%len(stages)]
		a := b.assignment(epoch, repave, fmt.Sprint(2+i%3))
		b.order(a)
		s := b.until("on the way", time.Minute, func(s *nstancev1.MachineStatus) bool { return s.GetEpoch() == epoch && s.GetStage() >= stage })
		time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
		b.kill()
		hit[s.GetStage().String()]++
		if i%3 == 2 {
			for _, pids := range b.supervisors() {
				for _, pid := range pids {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		b.start()
		b.order(a) // the agent says it again
		s = b.until("running or failed", 3*time.Minute, func(s *nstancev1.MachineStatus) bool { return running(epoch)(s) || failed(s) })
		if f := s.GetFailure(); f != nil {
			t.Fatalf("%d, killed in %s: %v\n%s", i, stage, f, b.logEnd())
		}
		b.expectOne(s)
		active := slotOf(s, s.GetActiveSlot())
		b.nodes.all()
		b.eventually("the kubelet of the machine that runs", 20*time.Second, func() bool { return b.nodes.heard(active.GetBootId()) })
		for _, id := range b.nodes.all() {
			if id != active.GetBootId() {
				t.Fatalf("%d: the kubelet of boot %s runs beside that of %s", i, id, active.GetBootId())
			}
		}
		if text, err := os.ReadFile(b.path("machines/node-" + s.GetActiveSlot() + "/etc/content")); err != nil || string(text) != fmt.Sprint(2+i%3) {
			t.Fatalf("%d: content %q, %v", i, text, err)
		}
	}
	t.Logf("killed at: %v", hit)
}

// TestM57M59_WhatCannotBeBuilt: a digest that is another one, a disk that is full. The old node
// runs on.
func TestM57M59_WhatCannotBeBuilt(t *testing.T) {
	b := paved(t, "size=1500m")
	boot := slotOf(b.status, "a").GetBootId()
	kept := func(s *nstancev1.MachineStatus, reason string) {
		t.Helper()
		f := s.GetFailure()
		if f.GetReason() != reason || f.GetOutcome() != nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_KEPT || slotOf(s, "a").GetBootId() != boot {
			t.Errorf("%v, want %s", s, reason)
		}
		b.nodes.all()
		b.eventually("the kubelet of the old machine runs again", 30*time.Second, func() bool { return b.nodes.heard(boot) })
	}
	a := b.assignment(2, repave, "2")
	a.GetTemplate().GetImage().GetArchive().Sha256 = "sha256:" + strings.Repeat("2", 64)
	b.order(a)
	kept(b.until("a failure", 4*time.Minute, failed), "FetchFailed")

	out, err := exec.Command("nsenter", "--mount", "--target", fmt.Sprint(b.holder.Process.Pid), "--", "fallocate", "--length", "1250M", b.path("machines/full")).CombinedOutput()
	if err != nil {
		t.Fatalf("fill the disk: %v: %s", err, out)
	}
	b.order(b.assignment(3, repave, "3"))
	kept(b.until("a failure", 4*time.Minute, func(s *nstancev1.MachineStatus) bool { return s.GetFailure().GetEpoch() == 3 }), "BuildFailed")
}

// TestM60_AJoinThatNeverComes: the old machine runs again, with what it held.
func TestM60_AJoinThatNeverComes(t *testing.T) {
	b := paved(t, "")
	a := b.assignment(2, repave, "2")
	a.GetTemplate().Timeouts = &nstancev1.MachineTimeouts{Join: durationpb.New(10 * time.Second)}
	a.GetTemplate().GetMachine().Files = append(a.GetTemplate().GetMachine().GetFiles(), &nstancev1.MachineFile{Path: "/etc/stub-hangs", Mode: 0o644})
	b.order(a)
	s := b.until("reverted", 6*time.Minute, failed)
	if f := s.GetFailure(); f.GetOutcome() != nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_REVERTED || s.GetActiveSlot() != "a" {
		t.Errorf("%v", s)
	}
	b.eventually("only the old machine", 10*time.Second, func() bool { return len(b.supervisors()) == 1 && b.members(journal.B) == 0 })
	b.nodes.all()
	boot := slotOf(s, "a").GetBootId()
	b.eventually("its kubelet", 20*time.Second, func() bool { return b.nodes.heard(boot) })
}

// TestAHostThatReboots: the machine is started again, without a server.
func TestAHostThatReboots(t *testing.T) {
	b := paved(t, "")
	before := slotOf(b.status, "a").GetBootId()
	b.kill()
	for _, slot := range journal.Slots() {
		for _, dir := range cgroups(t) {
			killAll(t, dir+"/nstance-"+slot.Machine())
		}
	}
	if err := os.RemoveAll(b.path("run")); err != nil {
		t.Fatal(err)
	}
	b.start()
	s := b.until("running again", time.Minute, func(s *nstancev1.MachineStatus) bool {
		id := slotOf(s, "a").GetBootId()
		return id != "" && id != before
	})
	b.expectOne(s)
}

// TestApplyWithoutAServer: from files, to the end.
func TestApplyWithoutAServer(t *testing.T) {
	b := newBox(t, "")
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return b.path(name)
	}
	order := write("assignment.json", jsonOf(t, b.assignment(1, pave, "1")))
	credential := write("credential.json", fmt.Sprintf(`{"token":"marked-token","expiresAt":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	out, err := b.command("apply", "-f", order, "--dry-run").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "/etc/kubernetes/kubelet.yaml") || b.exists("machines/node-a") {
		t.Errorf("apply --dry-run: %v: %s", err, out)
	}
	if out, err := b.command("apply", "-f", order).CombinedOutput(); err == nil || !strings.Contains(string(out), "-credential") {
		t.Errorf("apply without a credential: %v: %s", err, out)
	}
	out, err = b.command("apply", "-f", order, "--credential", credential).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "epoch 1: running") {
		t.Errorf("apply: %v: %s", err, out)
	}
	if n := len(b.supervisors()); n != 1 {
		t.Errorf("%d machines run after apply", n)
	}
	out, err = b.command("status", "-o", "json").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"activeSlot"`) {
		t.Errorf("status: %v: %s", err, out)
	}
	// With the service it works the same.
	b.start()
	b.until("running", time.Minute, running(1))
	order = write("assignment.json", jsonOf(t, b.assignment(2, repave, "2")))
	out, err = b.command("apply", "-f", order, "--credential", credential).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "epoch 2: running") {
		t.Errorf("apply beside the service: %v: %s", err, out)
	}
	out, err = b.command("reset").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "epoch 3: reset") {
		t.Errorf("reset beside the service: %v: %s", err, out)
	}
}
