package serve

import (
	"context"
	"log/slog"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// closing is a driver that counts how often it is closed.
type closing struct {
	*drivertest.Cloud
	closed int
}

func (c *closing) Close() { c.closed++ }

// The driver that was made for a configuration that cannot be served with is let go of
// before another one is made.
func TestADriverThatIsNotUsedIsClosed(t *testing.T) {
	var made []*closing
	cfg, err := config.Load("c.jsonc", devConfig(t, 3), config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Server.Secrets.EncryptionKey = nil
	opts := Options{Flags: Flags{CacheDir: t.TempDir()}}
	opts.Provider.New = func(context.Context, Settings) (driver.Driver, error) {
		made = append(made, &closing{Cloud: drivertest.New(drivertest.Options{})})
		return made[len(made)-1], nil
	}
	open := func(cfg *effective.Config) (*resources, error) {
		r := &resources{store: objectstore.NewProbed(memory.New(memory.Options{}))}
		return r, r.open(t.Context(), opts, cfg, slog.New(slog.DiscardHandler))
	}
	bad := *cfg
	bad.Server.Bind.Agent = "192.0.2.1:1" // an address of documentation: nobody's
	if _, err := open(&bad); err == nil {
		t.Fatal("listened on somebody else's address")
	}
	good := *cfg
	good.Server.Bind = document.Bind{
		Health: "127.0.0.1:0", Election: "127.0.0.1:0", Registration: "127.0.0.1:0", Operator: "127.0.0.1:0", Agent: "127.0.0.1:0",
	}
	r, err := open(&good)
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != 2 || made[0].closed != 1 || made[1].closed != 0 {
		t.Errorf("made %d drivers; closed: %v", len(made), made)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
	if made[1].closed != 1 {
		t.Error("the last one was not closed at the end")
	}
}
