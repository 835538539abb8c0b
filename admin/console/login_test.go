package console_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"nstance.dev/admin/console"
)

// The address goes to a terminal, and a terminal can be stopped.
func TestS22_WhoIsToldOfALoginHoldsUpNobodyElse(t *testing.T) {
	var w *world
	w = newWorld(t, func(o *console.Options) {
		o.LoggedIn = func(string) {
			free := make(chan struct{})
			go func() {
				defer close(free)
				w.server.Token()
			}()
			select {
			case <-free:
			case <-time.After(5 * time.Second):
				t.Error("while it is told, nobody else is answered")
			}
		}
	})
	w.browser(w.server.Token())
}

// A session is over twelve hours after its login, however busy its browser is, and its streams are over with it.
func TestF43_ASessionEnds(t *testing.T) {
	var ahead atomic.Int64 // of the clock
	w := newWorld(t, func(o *console.Options) {
		o.Now = func() time.Time { return time.Unix(1_800_000_000, 0).Add(time.Duration(ahead.Load())) }
	})
	const path, scale = "/api/v1/shards/s1/groups/web", `{"config":{"size":9}}`
	b := w.browser(w.server.Token())
	ahead.Store(int64(12*time.Hour - 50*time.Millisecond))
	b.wants("shortly before", 200, "web")(b.do("GET", "/api/v1/shards/s1/groups", "", nil))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := b.listen(ctx)
	for {
		if name, _ := next(); name == "" {
			break
		}
	}
	if ctx.Err() != nil {
		t.Error("a stream goes on when its session is over")
	}
	later := w.browser(<-w.tokens) // its own twelve hours begin now
	ahead.Store(int64(12 * time.Hour))
	b.wants("afterwards", 401, "NOT_LOGGED_IN")(b.do("GET", "/api/console/session", "", nil))
	b.wants("afterwards, an action", 401, "NOT_LOGGED_IN")(b.do("PUT", path, scale, nil))
	b.wants("afterwards, the stream", 401, "NOT_LOGGED_IN")(b.do("GET", "/api/console/events", "", nil))
	b.wants("afterwards, a page", 401, "An address works once")(b.do("GET", "/", "", nil))
	later.wants("who came later", 200, `"size":9`)(later.do("PUT", path, scale, nil))
}
