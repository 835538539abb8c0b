package groups

import (
	"context"

	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/layout"
	"nstance.dev/server/refusal"
)

// writer is what writes the group file: the only one.
type writer struct {
	opts     Options
	inForce  *inForce
	edits    chan *request
	previous previous // for the goroutine that runs
	records  records
}

// key is where the group file stands.
func (w *writer) key() string { return layout.GroupsKey(w.opts.Shard) }

// editsAtOnce bounds the edits that wait for a write.
const editsAtOnce = 1024

// edit changes the group file for one caller and says whether there is anything
// to write. It leaves the file alone if it returns false or an error, replaces
// entries rather than changing what they point to, and runs again if a write
// is lost.
type edit func(*effective.Config, *groupfile.File) (bool, error)

// request is an edit that somebody waits for.
type request struct {
	by      asker
	edit    edit
	release func() // called when the request is answered; nil: nothing is
	done    chan error
}

func (r *request) answer(err error) {
	if r.release != nil {
		r.release()
	}
	r.done <- err
}

// asker is who asks for an edit. The zero value is the server itself, which no quota binds.
type asker struct {
	tenant string
	ends   bool // it asks for less: that may go a little beyond its quota of bytes
}

// bytes is how many bytes of the group file the asker may fill.
func (a asker) bytes(cfg *effective.Config) int {
	limit := cfg.GroupBytes(a.tenant)
	if a.ends {
		limit += limit / 8
	}
	return limit
}

// change has an edit of the group file made durable and waits for it. The error is that of the
// edit or of the write.
func (w *writer) change(ctx context.Context, by asker, edit edit) error {
	return w.submit(ctx, &request{by: by, edit: edit, done: make(chan error, 1)})
}

// submit hands a request to [writer.run] and waits for its answer. One that its caller does not
// wait for any more is carried out all the same.
func (w *writer) submit(ctx context.Context, r *request) error {
	select {
	case w.edits <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.opts.Ended:
		return refusal.ErrTermOver
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-w.opts.Ended:
		return refusal.ErrTermOver
	}
}

// run writes the edits until ctx ends: all that wait go into one write.
func (w *writer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-w.edits:
			batch := []*request{first}
			for len(w.edits) > 0 {
				batch = append(batch, <-w.edits)
			}
			w.opts.Over(w.commit(ctx, batch))
		}
	}
}
