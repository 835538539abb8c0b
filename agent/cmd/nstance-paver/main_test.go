package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/pavertest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	order, err := protojson.Marshal(pavertest.Assignment(1, nstancev1.MachineMode_MACHINE_MODE_PAVE, "1"))
	if err != nil {
		t.Fatal(err)
	}
	assignment, broken, secret := write("assignment.json", string(order)), write("broken.json", "{"), write("secret.json", `{"token": marked}`)
	place := []string{"--dir", dir, "--machines", dir, "--run", dir, "--socket", dir + "/none.sock", "--lock", dir + "/lock", "--mode", "direct"}
	for _, tt := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"version", []string{"version"}, 0, "dev\n", ""},
		{"version as a flag", []string{"--version"}, 0, "dev\n", ""},
		{"help", []string{"--help"}, 0, "nstance-paver apply -f FILE", ""},
		{"help of a command", []string{"apply", "--help"}, 0, "", "-dry-run"},
		{"an unknown command", []string{"build"}, 2, "", `unknown command "build"`},
		{"an unknown flag", []string{"status", "--listen"}, 2, "", "-listen"},
		{"an argument", []string{"reset", "all"}, 2, "", `unexpected argument "all"`},
		{"an unknown mode", append([]string{"status"}, append(place, "--mode", "docker")...), 2, "", "must be one of service, direct and auto"},
		{"an unknown format", append([]string{"status"}, append(place, "-o", "yaml")...), 2, "", "must be one of text and json"},
		{"status of an empty host", append([]string{"status"}, place...), 0, "problem: NotRunning: ", ""},
		{"the same as JSON", append([]string{"status"}, append(place, "-o", "json")...), 0, `"NotRunning"`, ""},
		{"apply without a file", append([]string{"apply"}, place...), 2, "", "-f: a file with an assignment is required"},
		{"apply of a file that does not exist", append([]string{"apply"}, append(place, "-f", dir+"/none")...), 2, "", "no such file"},
		{"apply of a file that is none", append([]string{"apply"}, append(place, "-f", broken)...), 2, "", "read assignment"},
		{"apply with a credential that is none", append([]string{"apply"}, append(place, "-f", assignment, "--credential", secret)...), 2, "", "it is not a MachineCredential"},
		{"facts without a file", []string{"facts"}, 2, "", "-f: a file with an assignment is required"},
		{"facts for an assignment", []string{"facts", "-f", assignment}, 0, `"resolvConf": `, ""},
		{"a dry run of apply", append([]string{"apply"}, append(place, "-f", assignment, "--dry-run")...), 0, "slot /etc/kubernetes/kubelet.yaml -rw-r--r--\n", ""},
		{"a dry run of reset", append([]string{"reset"}, append(place, "--dry-run", "--wipe")...), 0, "remove " + dir + "/persist\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := start(t.Context(), tt.args, &stdout, &stderr)
			if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
			}
			if strings.Contains(stderr.String(), "marked") {
				t.Errorf("a credential is quoted: %q", stderr.String())
			}
		})
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("something was changed: %v, %v", entries, err)
	}
}

func TestOneProcessWorksOnAHost(t *testing.T) {
	c := config{lock: filepath.Join(t.TempDir(), "run/lock")}
	unlock, err := c.takeLock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.takeLock(); err == nil || !strings.Contains(err.Error(), errLocked.Error()) {
		t.Errorf("%v", err)
	}
	unlock()
	unlock, err = c.takeLock()
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// A journal that cannot be believed is said, with what a reset loses.
func TestADryRunOfAResetWithACorruptJournal(t *testing.T) {
	c := config{dir: t.TempDir(), machines: t.TempDir()}
	if err := os.WriteFile(c.journal().Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.wouldReset(false, &out); err != nil || !strings.Contains(out.String(), "JournalCorrupt") {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := c.journal().Save(journal.Journal{V: 1, Settings: map[string]string{"kernel/panic": "7"}}); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := c.wouldReset(false, &out); err != nil || !strings.Contains(out.String(), "set sysctl kernel/panic = 7\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestShow(t *testing.T) {
	s := &nstancev1.MachineStatus{
		Epoch: 2, Stage: nstancev1.MachineStage_MACHINE_STAGE_FETCH, Attempts: 1, LastError: "no route", ActiveSlot: "a", CredentialNeeded: true,
		Slots: []*nstancev1.MachineSlot{{
			Name: "a", State: nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING, BootId: "x", Epoch: 1,
			Configuration: &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: 1},
		}},
		Failure:   &nstancev1.MachineFailure{Epoch: 1, Stage: nstancev1.MachineStage_MACHINE_STAGE_JOIN, Reason: "JoinFailed", Outcome: nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_REVERTED},
		Preflight: []*nstancev1.PreflightCheck{{Id: "Swap", Result: nstancev1.PreflightResult_PREFLIGHT_RESULT_FAILED, Message: "swap is on"}},
		Drift:     []*nstancev1.MachineDrift{{Path: "/etc/x", Kind: nstancev1.MachineDriftKind_MACHINE_DRIFT_KIND_CHANGED}},
		Problems:  []*nstancev1.MachineProblem{{Reason: "EpochConflict", Message: "old"}},
	}
	var out bytes.Buffer
	if err := show(&out, s, "text"); err != nil {
		t.Fatal(err)
	}
	const want = `epoch 2: fetch, 1 failed: no route
failed: epoch 1 in join: JoinFailed:  (reverted)
SLOT        STATE    VERSION  EPOCH  BOOT ID  
a (active)  running  gpu-v1   1      x        
preflight: Swap failed: swap is on
drift: /etc/x changed
problem: EpochConflict: old
a credential is needed to go on
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}
