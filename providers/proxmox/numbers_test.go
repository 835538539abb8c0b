package proxmox

import "testing"

func TestNumbers(t *testing.T) {
	var n numbers
	for i, c := range []struct{ highest, want int }{
		{0, 10_000},
		{9_000, 10_001},
		{10_001, 10_002}, // not seen yet in what was listed
		{10_500, 10_501}, // somebody else's
		{10_400, 10_502},
	} {
		if got, err := n.take(c.highest); err != nil || got != c.want {
			t.Errorf("no. %d, above %d: %d, %v; want %d", i, c.highest, got, err, c.want)
		}
	}
	if got, err := n.take(maxNumber); err == nil {
		t.Errorf("above the last number: %d", got)
	}
}
