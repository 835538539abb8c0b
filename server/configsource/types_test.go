package configsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/driver"
	"nstance.dev/server/objectstore/memory"
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
	text := string(testConfig(size))
	const has = `"instance_type": "process"`
	if !strings.Contains(text, has) {
		t.Fatalf("no %s in\n%s", has, text)
	}
	return []byte(strings.Replace(text, has, fmt.Sprintf(`"instance_type": %q`, name), 1))
}

func TestS19_TypeThatTheProviderSaysDoesNotFitIsRefused(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, testConfig(3))
	r := standby(t, store)
	var logs bytes.Buffer
	r.source.log = slog.New(slog.NewTextHandler(&logs, nil))
	c := &catalogue{}
	r.source.AskTypes(c, r.target.Static().Config.Server.RequestTimeout.Std())

	put(t, store, ofType(t, "arm.large", 4))
	_, _, updated, err := r.Reload(t.Context())
	var problems jsonc.Problems
	if updated || !errors.As(err, &problems) || !strings.Contains(err.Error(), `machines of type "arm.large" are not amd64`) {
		t.Errorf("reloaded: %v, %v; want a problem with the type", updated, err)
	}
	if got := sizeOf(r); got != 3 {
		t.Errorf("size %d, want the one before, 3", got)
	}
	put(t, store, ofType(t, "new.large", 5))
	if _, _, updated, err := r.Reload(t.Context()); !updated || err != nil || sizeOf(r) != 5 {
		t.Errorf("a type that the provider does not know: %v, %v, size %d; want it in force", updated, err, sizeOf(r))
	}
	if !strings.Contains(logs.String(), "new.large") {
		t.Errorf("no word of the unknown type in %q", logs.String())
	}
	put(t, store, ofType(t, "arm.large", 6))
	if _, _, updated, _ := r.Reload(t.Context()); updated {
		t.Error("the answer was forgotten")
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(c.asked)))); n != len(c.asked) {
		t.Errorf("asked %q: each type once", c.asked)
	}
}

func TestTypeThatTheProviderDoesNotAnswerForIsNotJudged(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, testConfig(3))
	r := standby(t, store)
	c := &catalogue{err: driver.Fail(driver.Throttled, "types", errors.New("slow down"))}
	r.source.AskTypes(c, r.target.Static().Config.Server.RequestTimeout.Std())
	put(t, store, ofType(t, "arm.large", 4))
	if _, _, updated, err := r.Reload(t.Context()); !updated || err != nil {
		t.Errorf("reloaded: %v, %v", updated, err)
	}
	c.err = nil
	put(t, store, ofType(t, "arm.large", 5))
	if _, _, updated, err := r.Reload(t.Context()); updated || err == nil {
		t.Errorf("reloaded when the provider answers: %v, %v", updated, err)
	}
}

// The configuration that a server begins with is read before there is anybody to ask.
// It stays in force, and what is wrong with it is said.
func TestTypesOfTheFirstConfigurationAreConfirmed(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, ofType(t, "arm.large", 3))
	r := standby(t, store)
	var logs bytes.Buffer
	r.log = slog.New(slog.NewTextHandler(&logs, nil))
	r.source.AskTypes(&catalogue{}, r.target.Static().Config.Server.RequestTimeout.Std())
	archMismatch := r.source.ArchMismatch
	if err := archMismatch("arm.large", "amd64"); err != nil {
		t.Errorf("before anybody was asked: %v", err)
	}
	r.ConfirmTypes(t.Context())
	if err := archMismatch("arm.large", "amd64"); err == nil {
		t.Error("its groups get no condition")
	}
	if err := archMismatch("process", "amd64"); err != nil {
		t.Errorf("a type that nobody asked about: %v", err)
	}
	if !strings.Contains(logs.String(), "level=ERROR") || !strings.Contains(logs.String(), "arm.large") || sizeOf(r) != 3 {
		t.Errorf("logged %q, size %d", logs.String(), sizeOf(r))
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
