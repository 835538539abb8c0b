package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/shard"
)

// catalogue is a provider that knows three types.
type catalogue struct {
	err   error
	asked []string
}

func (c *catalogue) ValidateInstanceType(_ context.Context, instanceType, arch string) (driver.TypeVerdict, error) {
	c.asked = append(c.asked, instanceType+"/"+arch)
	switch {
	case c.err != nil:
		return "", c.err
	case instanceType == "arm.large":
		return driver.TypeMismatch, nil
	case instanceType == "new.large":
		return driver.TypeUnknown, nil
	default:
		return driver.TypeOK, nil
	}
}

// ofType is a configuration whose template has another instance type.
func ofType(t *testing.T, name string, size int) []byte {
	t.Helper()
	text := string(devConfig(t, size))
	const has = `"instance_type": "process"`
	if !strings.Contains(text, has) {
		t.Fatalf("no %s in\n%s", has, text)
	}
	return []byte(strings.Replace(text, has, fmt.Sprintf(`"instance_type": %q`, name), 1))
}

func TestS19_TypeThatTheProviderSaysDoesNotFitIsRefused(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, devConfig(t, 3))
	p := standby(t, store)
	var logs bytes.Buffer
	p.source.log = slog.New(slog.NewTextHandler(&logs, nil))
	c := &catalogue{}
	p.source.types.ask(c, p.shard.Static().Config.Server.RequestTimeout.Std())

	put(t, store, ofType(t, "arm.large", 4))
	_, _, updated, err := p.reload(t.Context())
	var problems config.Problems
	if updated || !errors.As(err, &problems) || !strings.Contains(err.Error(), `machines of type "arm.large" are not amd64`) {
		t.Errorf("reloaded: %v, %v; want a problem with the type", updated, err)
	}
	if got := sizeOf(p); got != 3 {
		t.Errorf("size %d, want the one before, 3", got)
	}
	put(t, store, ofType(t, "new.large", 5))
	if _, _, updated, err := p.reload(t.Context()); !updated || err != nil || sizeOf(p) != 5 {
		t.Errorf("a type that the provider does not know: %v, %v, size %d; want it in force", updated, err, sizeOf(p))
	}
	if !strings.Contains(logs.String(), "new.large") {
		t.Errorf("no word of the unknown type in %q", logs.String())
	}
	put(t, store, ofType(t, "arm.large", 6))
	if _, _, updated, _ := p.reload(t.Context()); updated {
		t.Error("the answer was forgotten")
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(c.asked)))); n != len(c.asked) {
		t.Errorf("asked %q: each type once", c.asked)
	}
}

func TestTypeThatTheProviderDoesNotAnswerForIsNotJudged(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, devConfig(t, 3))
	p := standby(t, store)
	c := &catalogue{err: driver.Fail(driver.Throttled, "types", errors.New("slow down"))}
	p.source.types.ask(c, p.shard.Static().Config.Server.RequestTimeout.Std())
	put(t, store, ofType(t, "arm.large", 4))
	if _, _, updated, err := p.reload(t.Context()); !updated || err != nil {
		t.Errorf("reloaded: %v, %v", updated, err)
	}
	c.err = nil
	put(t, store, ofType(t, "arm.large", 5))
	if _, _, updated, err := p.reload(t.Context()); updated || err == nil {
		t.Errorf("reloaded when the provider answers: %v, %v", updated, err)
	}
}

// The configuration that a server begins with is read before there is anybody to ask.
// It stays in force, and what is wrong with it is said.
func TestTypesOfTheFirstConfigurationAreConfirmed(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, ofType(t, "arm.large", 3))
	p := standby(t, store)
	var logs bytes.Buffer
	p.log = slog.New(slog.NewTextHandler(&logs, nil))
	p.source.types.ask(&catalogue{}, p.shard.Static().Config.Server.RequestTimeout.Std())
	misfit := p.source.types.misfit
	if err := misfit("arm.large", "amd64"); err != nil {
		t.Errorf("before anybody was asked: %v", err)
	}
	p.confirmTypes(t.Context())
	if err := misfit("arm.large", "amd64"); err == nil {
		t.Error("its groups get no condition")
	}
	if err := misfit("process", "amd64"); err != nil {
		t.Errorf("a type that nobody asked about: %v", err)
	}
	if !strings.Contains(logs.String(), "level=ERROR") || !strings.Contains(logs.String(), "arm.large") || sizeOf(p) != 3 {
		t.Errorf("logged %q, size %d", logs.String(), sizeOf(p))
	}
}

func TestTypeBookIsBounded(t *testing.T) {
	b := newTypeBook(slog.New(slog.DiscardHandler))
	for i := range 3 * maxOpen {
		if err := b.check(machineType{fmt.Sprint(i), "amd64"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.open) != maxOpen {
		t.Errorf("S22: %d questions are kept, want %d", len(b.open), maxOpen)
	}
}

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
	p := &process{store: objectstore.NewProbed(memory.New(memory.Options{})), source: newTestSource(t, memory.New(memory.Options{}), t.TempDir()), log: slog.New(slog.DiscardHandler)}
	p.opts.Provider.New = func(context.Context, Settings) (driver.Driver, error) {
		made = append(made, &closing{Cloud: drivertest.New(drivertest.Options{})})
		return made[len(made)-1], nil
	}
	bad := *cfg
	bad.Server.Bind.Agent = "192.0.2.1:1" // an address of documentation: nobody's
	p.static = shard.Static{Config: &bad}
	if err := p.prepare(t.Context()); err == nil {
		t.Fatal("listened on somebody else's address")
	}
	good := *cfg
	good.Server.Bind = config.Bind{
		Health: "127.0.0.1:0", Election: "127.0.0.1:0", Registration: "127.0.0.1:0", Operator: "127.0.0.1:0", Agent: "127.0.0.1:0",
	}
	p.static = shard.Static{Config: &good}
	if err := p.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.ls.close()
	if len(made) != 2 || made[0].closed != 1 || made[1].closed != 0 {
		t.Errorf("made %d drivers; closed: %v", len(made), made)
	}
	p.closeDriver()
	if made[1].closed != 1 {
		t.Error("the last one was not closed at the end")
	}
}
