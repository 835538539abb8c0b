package operatorapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestArgumentsKeepTheirDigits(t *testing.T) {
	for text, want := range map[string]any{
		"plain":                 "plain",
		`"quoted"`:              "quoted",
		"true":                  true,
		"7":                     7.0,
		"0.25":                  0.25,
		"1e30":                  1e30,
		"9007199254740992":      9007199254740992.0,
		"9007199254740993":      "9007199254740993",
		"-12345678901234567890": "-12345678901234567890",
		`{"a": [12345678901234567890, 1], "b": {"c": 18446744073709551615}}`: map[string]any{
			"a": []any{"12345678901234567890", 1.0}, "b": map[string]any{"c": "18446744073709551615"},
		},
		"1 2": "1 2",
		"":    "",
	} {
		if diff := cmp.Diff(want, argValue(text)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
	}
}
