package groups

import (
	"errors"
	"testing"

	"nstance.dev/server/config/requests"
	"nstance.dev/server/refusal"
)

// TestCheckChangesNothing: a check answers what the change would be answered, names the field that
// is wrong, and leaves the group file as it is.
func TestCheckChangesNothing(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		size, large, none := 2, 1<<20, ""
		before := l.ETag()
		for _, c := range []struct {
			name    string
			change  requests.GroupChange
			version *string
			want    Checked
			reason  string
			field   string
		}{
			{"a new group", requests.GroupChange{Template: "plain", Size: &size}, nil, Checked{Changes: true, Creates: true}, "", ""},
			{"a new group that nobody has made", requests.GroupChange{Template: "plain"}, &none, Checked{Changes: true, Creates: true}, "", ""},
			{"a size that is too large", requests.GroupChange{Template: "plain", Size: &large}, nil, Checked{}, "INVALID_GROUP", "size"},
			{"a template that does not exist", requests.GroupChange{Template: "none"}, nil, Checked{}, "INVALID_GROUP", "template"},
		} {
			got, err := l.Check(web, c.change, c.version)
			var r *refusal.Error
			if c.reason != "" && (!errors.As(err, &r) || r.Reason != c.reason || r.Field != c.field) || c.reason == "" && err != nil {
				t.Errorf("%s: %v, want the reason %q about %q", c.name, err, c.reason, c.field)
			}
			if got != c.want {
				t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
			}
		}
		if _, ok := l.Find(web); ok || l.ETag() != before {
			t.Errorf("after checks alone the group exists: %v, the file is %q and was %q", ok, l.ETag(), before)
		}
		change := requests.GroupChange{Template: "plain", Size: &size}
		if err := l.Upsert(l.ctx, web, change, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := l.Check(web, change, nil); err != nil || got != (Checked{}) {
			t.Errorf("what is so already: %+v, %v", got, err)
		}
		stale := "stale"
		if _, err := l.Check(web, change, &stale); !refusedWith(err, refusal.Aborted) {
			t.Errorf("another version: %v", err)
		}
	})
}
