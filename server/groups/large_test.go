//go:build !race

// The files here are as large as a group file may be. The race detector makes each of their
// bytes twenty times as slow, and finds nothing: one goroutine writes and reads them.

package groups

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// TestS24_AcceptedIsReadable_ManyGroups: a tenant fills its quota with much text.
func TestS24_AcceptedIsReadable_ManyGroups(t *testing.T) {
	refusedAndReadable(t, func(l *leader) (err error) {
		for i := range 40 {
			vars := map[string]string{"a": strings.Repeat("x", 250<<10)}
			id := fleet.GroupID{Tenant: "default", Name: fmt.Sprintf("web-%d", i)}
			if one := l.Upsert(l.ctx, id, requests.GroupChange{Template: "plain", Vars: vars}, nil); one != nil {
				err = one
			}
		}
		return err
	}, refusal.ResourceExhausted)
}

// TestS24_OnlyWhatDoesNotFitIsRefused: the file is nearly full, with what a server
// without quotas had let in. Of edits in one write those are refused that find no
// room, and nobody else's.
func TestS24_OnlyWhatDoesNotFitIsRefused(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		first := a.lead()
		first.scale(web, 1)
		first.end()
		file := a.file()
		for i := range 32 {
			file.Set("default", fmt.Sprintf("old-%d", i), groupfile.Entry{
				Template: "plain", Vars: document.Vars{"a": strings.Repeat("x", 255<<10)},
			})
		}
		a.store(file)
		l := a.lead()
		answers := l.together(
			func() error { return l.tryScale(theirs, 1) },
			func() error {
				return l.Upsert(l.ctx, fleet.GroupID{Tenant: "b", Name: "large"}, requests.GroupChange{
					Template: "plain", Vars: map[string]string{"a": strings.Repeat("x", 200<<10)},
				}, nil)
			},
			func() error { return l.tryScale(fleet.GroupID{Tenant: "b", Name: "small"}, 1) },
			func() error { return l.tryScale(web, 0) },
		)
		if !refusedWith(answers[1], refusal.ResourceExhausted) {
			t.Errorf("what does not fit: %v, want ResourceExhausted", answers[1])
		}
		answers[1] = nil
		if err := errors.Join(answers...); err != nil {
			t.Errorf("the others: %v", err)
		}
		l.end()
		sizes := a.lead().sizes()
		if a, b, c := sizes[theirs], sizes[fleet.GroupID{Tenant: "b", Name: "small"}], sizes[web]; a != 1 || b != 1 || c != 0 {
			t.Errorf("sizes %d, %d, %d for the next leader, want 1, 1, 0", a, b, c)
		}
	})
}

// TestS24_GroupsComeBeforeCopies: copies of templates that do not fit beside the groups are
// not kept, and keep nobody from changing a group.
func TestS24_GroupsComeBeforeCopies(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		huge := document.Template{Files: map[string]document.File{"f": {Kind: "string", Template: strings.Repeat("x", groupfile.MaxBytes)}}}
		err := l.writer.change(l.ctx, asker{tenant: "default"}, func(_ *effective.Config, file *groupfile.File) (bool, error) {
			file.Templates = map[string]map[string]groupfile.TemplateCopy{"default": {"huge": {Template: huge}}}
			return true, nil
		})
		if err != nil {
			t.Error(err)
		}
		l.scale(web, 1)
		l.end()
		a.lead().wantSizes(map[fleet.GroupID]int{web: 1})
	})
}
