package linediff_test

import (
	"strings"
	"testing"

	"nstance.dev/admin/linediff"
)

// Differences are whole: what one text is made of follows from the other and the lines.
func TestLines(t *testing.T) {
	for _, tt := range []struct{ name, from, to, want string }{
		{"equal", "a\nb\n", "a\nb\n", ""},
		{"one line", "a\nb\nc\n", "a\nx\nc\n", " a|-b|+x| c"},
		{"added", "", "a\n", "+a"},
		{"removed", "a\nb\n", "", "-a|-b"},
		{"far away", "1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\n4\n5\n6\nx\n", " 5| 6|-7|+x"},
		{"two places", "x\n2\n3\n4\n5\n6\n7\n8\ny\n", "a\n2\n3\n4\n5\n6\n7\n8\nb\n", "-x|+a| 2| 3|...| 7| 8|-y|+b"},
	} {
		if got := strings.Join(linediff.Of(tt.from, tt.to), "|"); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
