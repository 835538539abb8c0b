package decisions

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

const (
	every    = time.Minute     // the least time between two writes
	lastCall = 1 * time.Second // that the write at a hand-over may take
)

// Cache is where the decisions of a term are.
type Cache interface {
	AddDecision(d explain.Decision)
	EachDecision(do func([]explain.Decision))
}

// Options are what a [Keeper] works with; all are required.
type Options struct {
	Shard  string
	Term   uint64
	Store  objectstore.Store
	Writes objectstore.RetryPolicy // proves the lease before each write
	// LastWrite proves before the write at a hand-over that no other server leads yet.
	LastWrite objectstore.RetryPolicy
	Cache     Cache
	// Over says whether an error means that the term is over.
	Over func(error) bool
	Now  func() time.Time
	Log  *slog.Logger
}

// Keeper stores the decisions of a term and brings back those of the terms before.
type Keeper struct {
	opts Options
	key  string

	mu      sync.Mutex
	before  document // as it was read
	etag    string   // of the document; empty: there is none
	gaps    []Gap
	writing bool // it has been read: another's is not replaced unseen
	news    bool // since the last write
}

// New returns a keeper that knows nothing yet.
func New(opts Options) *Keeper {
	return &Keeper{opts: opts, key: layout.DecisionKey(opts.Shard)}
}

// Read reads what the leader before has stored, for [Keeper.Restore]. A document that
// is damaged counts as none.
func (k *Keeper) Read(ctx context.Context) error {
	obj, err := k.opts.Store.Get(ctx, k.key)
	if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
		return err
	}
	var doc document
	if err == nil {
		if doc, err = decode(k.opts.Shard, obj.Data); err != nil {
			k.opts.Log.WarnContext(ctx, "stored decisions cannot be read and are lost; nothing has to be done", "key", k.key, "error", err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.before, k.etag, k.writing = doc, obj.ETag, true
	return nil
}

// Restore puts what was read into the cache, of groups that exist or may
// exist, and notes a gap where the leader before has not handed over.
func (k *Keeper) Restore(ctx context.Context, exists func(fleet.GroupID) bool) {
	k.mu.Lock()
	doc := k.before
	k.before = document{}
	k.gaps = slices.Clone(doc.Gaps)
	if !doc.Whole && (k.opts.Term > 1 || doc.V > 0) {
		k.gaps = append(k.gaps, Gap{From: doc.At, To: k.opts.Now().UTC()})
		k.gaps = k.gaps[max(0, len(k.gaps)-maxGaps):]
	}
	k.news = true // the document says that its leader has handed over: this one has not yet
	k.mu.Unlock()
	if doc.V == 0 {
		return // the shard has stored none yet
	}
	n := 0
	for _, g := range doc.Groups {
		id := fleet.GroupID{Tenant: g.Tenant, Name: g.Group}
		if !exists(id) {
			continue
		}
		for _, d := range g.Decisions {
			k.opts.Cache.AddDecision(d.of(id))
			n++
		}
	}
	k.opts.Log.InfoContext(ctx, "decisions of earlier terms read", "decisions", n, "stored", doc.At, "handed_over", doc.Whole)
}

// Gaps returns when decisions may be missing, the oldest first.
func (k *Keeper) Gaps() []Gap {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.gaps)
}

// Changed notes that there is news in the cache. It does nothing else: a pass of the
// loop costs no write.
func (k *Keeper) Changed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.news = true
}

// Run stores news at once, and then once a minute, until ctx ends, or until another leader
// has written. From the first write on the document says that this leader has not handed
// over, so a leader that soon ends leaves a gap that is known.
func (k *Keeper) Run(ctx context.Context) {
	for err := ctx.Err(); err == nil; err = retry.Wait(ctx, every) {
		err := k.write(ctx, false, k.opts.Writes)
		switch {
		case err == nil:
		case errors.Is(err, errReplaced):
			k.opts.Log.WarnContext(ctx, "decisions are kept by another leader from now on", "key", k.key)
			return
		case ctx.Err() != nil || k.opts.Over(err):
			return
		default:
			k.opts.Log.WarnContext(ctx, "decisions not stored; the next minute tries again", "key", k.key, "error", err)
		}
	}
}

// HandOver stores everything a last time, within a second: no decision follows. The
// leadership of ctx is ending, so its end does not end the write; where the lease has run
// out there is no hand-over (S2).
func (k *Keeper) HandOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCall)
	defer cancel()
	policy := k.opts.LastWrite
	policy.Attempts = 2
	if err := k.write(ctx, true, policy); err != nil {
		k.opts.Log.WarnContext(ctx, "decisions of the last minute not handed over; the next leader lacks them", "key", k.key, "error", err)
	}
}

// write stores what the cache has, if there is news or it is the last time.
func (k *Keeper) write(ctx context.Context, whole bool, policy objectstore.RetryPolicy) error {
	k.mu.Lock()
	if !k.writing || !k.news && !whole {
		k.mu.Unlock()
		return nil
	}
	etag := k.etag
	doc := document{V: version, Term: k.opts.Term, Shard: k.opts.Shard, At: k.opts.Now().UTC(), Whole: whole, Gaps: slices.Clone(k.gaps), Groups: []entry{}}
	k.news = false
	k.mu.Unlock()
	k.opts.Cache.EachDecision(func(all []explain.Decision) {
		if len(all) == 0 {
			return
		}
		e := entry{Tenant: all[0].Group.Tenant, Group: all[0].Group.Name}
		for _, d := range all {
			e.Decisions = append(e.Decisions, stored(d))
		}
		doc.Groups = append(doc.Groups, e)
	})
	data, err := doc.encode(maxUnpacked)
	if err == nil {
		etag, err = k.put(ctx, data, etag, policy)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.etag = etag
	case errors.Is(err, errReplaced):
		k.writing = false
	default:
		k.news = true
	}
	return err
}

// errReplaced says that a later leader has written the document.
var errReplaced = errors.New("a later leader has written it")

// put replaces the document that has this etag, or what an earlier leader has written
// since: its last write may come after this one has read.
func (k *Keeper) put(ctx context.Context, data []byte, etag string, policy objectstore.RetryPolicy) (string, error) {
	written, err := objectstore.Put(ctx, k.opts.Store, k.key, data, etag, policy)
	if !errors.Is(err, objectstore.ErrPrecondition) {
		return written, err
	}
	obj, err := k.opts.Store.Get(ctx, k.key)
	if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
		return "", err
	}
	if err == nil {
		if doc, err := decode(k.opts.Shard, obj.Data); err == nil && doc.Term > k.opts.Term {
			return "", errReplaced
		}
	}
	return objectstore.Put(ctx, k.opts.Store, k.key, data, obj.ETag, policy)
}
