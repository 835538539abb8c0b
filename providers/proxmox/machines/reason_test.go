package machines

import (
	"strings"
	"testing"

	"nstance.dev/providers/proxmox/api"
)

func TestReasonIsThatOfTheLastSwitch(t *testing.T) {
	backup := api.FinishedTask{Type: "vzdump", User: "root@pam", Status: "OK"}
	for want, tasks := range map[string][]api.FinishedTask{
		"":                      {backup},
		"ended by itself":       {backup, {Type: "qmstart", User: "nstance@pve!server", Status: "OK"}, {Type: "qmstop", Status: "OK"}},
		"start failed":          {{Type: "qmstart", User: "nstance@pve!server", Status: "start failed: no such disk"}},
		"qmstop by ada@pam at ": {{Type: "qmstop", User: "ada@pam", Status: "OK"}, {Type: "qmstart", Status: "OK"}},
	} {
		got := reasonOf(tasks)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want one with %q", tasks, got, want)
		}
	}
	if got := reasonOf(nil); got != "" {
		t.Errorf("of a machine without tasks: %q", got)
	}
}
