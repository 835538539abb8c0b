package usage

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	const status = "Name:\tnstance-operato\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t12\n"
	const stat = "7 (odd ) name) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 12 0 100 0 0\n"
	got, err := parse(status, stat)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Usage{Resident: 1 << 20, Peak: 2 << 20, Processor: 2 * time.Second}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for name, files := range map[string][2]string{
		"ended":    {"Name:\tx\nState:\tZ (zombie)\n", stat},
		"cut off":  {status, "7 (x) S 1"},
		"no times": {status, ""},
	} {
		if u, err := parse(files[0], files[1]); err == nil {
			t.Errorf("%s: %+v", name, u)
		}
	}
}
