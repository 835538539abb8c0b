package filesync

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/protos/identity"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

func TestTroublesAreToldOnceAndStandUntilTheyEnd(t *testing.T) {
	const a, b = identity.ID("vmx-a"), identity.ID("vmx-b")
	other := fleet.GroupID{Tenant: web.Tenant, Name: "other"}
	here, there := trouble{"token", true}, trouble{"app.env", false}
	all := newTroubles()
	note := func(id identity.ID, group fleet.GroupID, what trouble, text string, wantNews, wantChanged bool) {
		t.Helper()
		if news, changed := all.note(id, group, what, text); news != wantNews || changed != wantChanged {
			t.Errorf("%s %v %q: news %v, changed %v", id, what, text, news, changed)
		}
	}
	stand := func(group fleet.GroupID, want ...explain.Undelivered) {
		t.Helper()
		if diff := cmp.Diff(want, all.in(group)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", group, diff)
		}
	}

	note(a, web, here, "", false, false)
	stand(web)
	note(b, web, here, "no such secret", true, true)
	note(b, web, here, "no such secret", false, false)
	note(a, web, here, "no such secret", true, true)
	note(a, web, there, "disk full", true, true)
	note("vmx-c", other, there, "disk full", true, true)
	stand(web, explain.Undelivered{Instance: a, Why: "file app.env, on the machine: disk full; and 1 more"}, explain.Undelivered{Instance: b, Why: "file token, on the server: no such secret"})
	note(a, web, there, "", false, true)
	note(b, web, here, "sealed with another key", true, true)
	stand(web, explain.Undelivered{Instance: a, Why: "file token, on the server: no such secret"}, explain.Undelivered{Instance: b, Why: "file token, on the server: sealed with another key"})
	if all.keep(a, func(string) bool { return true }) || !all.keep(a, func(file string) bool { return file != "token" }) {
		t.Error("only what was said of files that are not wanted any more ends")
	}
	all.forget(b)
	all.forget(b)
	stand(web)
	stand(other, explain.Undelivered{Instance: "vmx-c", Why: "file app.env, on the machine: disk full"})
	all.forget("vmx-c")
	if len(all.byID)+len(all.byGroup) > 0 {
		t.Error("something is kept of those who were forgotten")
	}
}
