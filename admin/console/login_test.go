package console_test

import (
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
