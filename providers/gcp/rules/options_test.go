package rules

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseOptions(t *testing.T) {
	got, err := ParseOptions(map[string]any{"project": "my-project-1", "endpoint": "http://127.0.0.1:8080", "prices": map[string]any{"e2-small": json.Number("0.0168")}})
	if err != nil || got.Prices["e2-small"] != 0.0168 || got.Project != "my-project-1" || got.Endpoint != "http://127.0.0.1:8080" {
		t.Errorf("options: %+v, %v", got, err)
	}
	_, err = ParseOptions(map[string]any{"project": 7, "endpoint": "127.0.0.1", "prices": map[string]any{"x": -1}, "zone": "x"})
	for _, say := range []string{"project: is 7", "endpoint: \"127.0.0.1\" is not an API address", "prices: x: is -1", "zone: unknown option"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v does not say %q", err, say)
		}
	}
	if New().CheckOption("project", "UPPER") == nil || New().CheckOption("project", "example.com:my-project") != nil {
		t.Error("a project's id is judged wrongly")
	}
}
