package rules

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"nstance.dev/server/driver"
)

func TestParseOptions(t *testing.T) {
	opts, err := ParseOptions(map[string]any{"dir": "/d", "agent": "/a", "room": map[string]any{"net-1": json.Number("3")}})
	if err != nil || opts.Dir != "/d" || opts.Agent != "/a" || opts.Room["net-1"] != 3 {
		t.Errorf("%+v, %v", opts, err)
	}
	_, err = ParseOptions(map[string]any{"dri": "/d", "agent": 7})
	if err == nil {
		t.Fatal("nonsense is accepted")
	}
	want := []string{
		"agent: is 7, must be a path",
		`dri: unknown option; the local provider has "dir", "agent", "room" and "addresses"`,
		"dir: missing; set it to the directory in which the machines shall live",
	}
	if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("errors %q, want %q", got, want)
	}
}

func TestCheckOption(t *testing.T) {
	check := New().CheckOption
	if err := check("room", map[string]any{"net-1": -1}); err == nil {
		t.Error("room for -1 machines is accepted")
	}
	for _, network := range []any{"10.77.0.0/24", "fd00::/16", "10.77.0.1", 7} {
		if err := check("addresses", network); err == nil {
			t.Errorf("addresses of %v are accepted", network)
		}
	}
}

// Validation warns of an argument, before a create is refused for it.
func TestCheckArgWarns(t *testing.T) {
	if err := New().CheckArg("ImageId", "ami-1"); !errors.Is(err, driver.ErrArgWarning) {
		t.Errorf("an argument of another provider: %v", err)
	}
}
