package filesync

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
)

// brief are files without what the clock says.
func brief(all []File) []File {
	for i := range all {
		all[i].Modified, all[i].Ends = time.Time{}, time.Time{}
	}
	return all
}

func TestHowAMachineHasItsFiles(t *testing.T) {
	in(t, map[string]document.File{"app.env": env, "token": token, "node.crt": node}, func(t *testing.T, w *world) {
		w.shortLived()
		began := time.Now()
		if got := w.Files(identity.ID("vmx0")); got != nil {
			t.Errorf("files of a machine that never connected: %+v", got)
		}
		a := w.connect(nil) // the secret is missing
		settle(interval + 10*time.Second)
		got := w.Files(a.id)
		if len(got) != 3 || got[2].Name != "token" || got[2].Error == "" || got[2].Current || got[2].Kind != token.Kind {
			t.Fatalf("files where a secret is missing: %+v", got)
		}
		w.secret("token", "t1")
		settle(2 * time.Hour) // within the life of the certificate, which is renewed on the way
		got = w.Files(a.id)
		crt := got[1]
		if left := time.Until(crt.Ends); left <= 0 || left > life || !crt.Ends.Equal(crt.Modified.Add(life)) || crt.Modified.Before(began) {
			t.Errorf("the certificate was made at %v and ends at %v", crt.Modified, crt.Ends)
		}
		if end := a.certificate("node.crt").NotAfter; crt.Ends.Sub(end).Abs() > time.Second {
			t.Errorf("the certificate ends at %v, and is said to end at %v", end, crt.Ends)
		}
		want := []File{
			{Name: "app.env", Kind: env.Kind, Current: true}, {Name: "node.crt", Kind: node.Kind, Current: true}, {Name: "token", Kind: token.Kind, Current: true},
		}
		if diff := cmp.Diff(want, brief(got)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		a.refuse.Store(true) // what changes now cannot be brought
		w.change("h2", func(g *effective.Group) {
			g.Files = maps.Clone(g.Files)
			delete(g.Files, "token")
		})
		settle(interval)
		want[0].Current, want[0].Error, want[2].Current, want[2].Kind = false, "no room", false, ""
		if diff := cmp.Diff(want, brief(w.Files(a.id))); diff != "" {
			t.Errorf("files after a change that has not arrived (-want +got):\n%s", diff)
		}
	})
}

// A certificate ends with who signed it.
func TestACertificateEndsWithItsAuthority(t *testing.T) {
	in(t, map[string]document.File{"node.crt": node}, func(t *testing.T, w *world) {
		w.shortLived()
		w.endingAuthority(time.Hour)
		a := w.connect(nil)
		settle(interval + 10*time.Second)
		if got, end := w.Files(a.id)[0].Ends, w.authority().CA().Certificate().NotAfter; !got.Equal(end) {
			t.Errorf("it is said to end at %v, its authority ends at %v", got, end)
		}
	})
}
