package document_test

import (
	"encoding/json"
	"testing"

	"nstance.dev/server/config/document"
)

func TestAmountsOfMoney(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1_000_000, "0.0336": 33_600, `"0.0336"`: 33_600, "0.0000005": 1, "0.0000004": 0, "12.5": 12_500_000, "3e-2": 30_000,
		"-1": -1, "null": -1, `""`: -1, `"x"`: -1, "1e99": -1, "99999999999": -1, "[1]": -1,
	} {
		got := document.USD(-1)
		if err := json.Unmarshal([]byte(text), &got); (err != nil) != (want == -1) && text != "null" || int64(got) != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for want, amount := range map[string]document.USD{"0.0336": 33_600, "12.5": 12_500_000, "0": 0, "7": 7_000_000, "0.000001": 1} {
		if text, err := json.Marshal(amount); err != nil || string(text) != want || amount.String() != want {
			t.Errorf("%d: %s, %v, want %s", int64(amount), text, err, want)
		}
	}
}

func TestFractions(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1": 1_000_000, "0.15": 150_000, "1.000001": -1, "-0.1": -1, `"0.05"`: 50_000} {
		got := document.Fraction(-1)
		if err := json.Unmarshal([]byte(text), &got); (err != nil) != (want == -1) || int64(got) != want {
			t.Errorf("%s: %d, %v, want %d", text, int64(got), err, want)
		}
	}
}

func TestNodeCounts(t *testing.T) {
	for text, want := range map[string]document.NodeCount{`"10%"`: {N: 10, Percent: true}, "3": {N: 3}, `"3"`: {N: 3}, "0": {}, `"100%"`: {N: 100, Percent: true}} {
		var got document.NodeCount
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		again, _ := json.Marshal(got)
		var same document.NodeCount
		if err := json.Unmarshal(again, &same); err != nil || same != got {
			t.Errorf("%s is written %s, which is %v, %v", text, again, same, err)
		}
	}
	for _, text := range []string{`"101%"`, "-1", "1.5", `"%"`, `"ten"`, "99999999999"} {
		if err := new(document.NodeCount).UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func TestQuantities(t *testing.T) {
	for _, tt := range []struct {
		resource, text string
		want           int64 // -1: refused
	}{
		{"cpu", "100m", 100}, {"cpu", "2", 2000}, {"cpu", "0.5", 500}, {"cpu", "0.0001", 1},
		{"memory", "512Mi", 512 << 20}, {"memory", "1.5Gi", 3 << 29}, {"memory", "128974848", 128974848}, {"memory", "129M", 129_000_000}, {"memory", "1m", 1},
		{"pods", "5", 5}, {"example.com/gpu", "1", 1},
		{"memory", "16Ei", -1}, {"memory", "-1", -1}, {"memory", "1 Gi", -1}, {"memory", "", -1}, {"memory", "1gb", -1}, {"cpu", ".5", -1},
	} {
		got, err := document.Quantity(tt.text).Amount(tt.resource)
		if err != nil {
			got = -1
		}
		if got != tt.want {
			t.Errorf("%s of %s: %d, %v, want %d", tt.text, tt.resource, got, err, tt.want)
		}
	}
	var q document.Quantity
	if err := json.Unmarshal([]byte("2"), &q); err != nil || q != "2" {
		t.Errorf("a number reads as %q, %v", q, err)
	}
}

func FuzzQuantity(f *testing.F) {
	for _, text := range []string{"100m", "1.5Gi", "16Ei", "0", "999999999999999999E"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, resource := range []string{"cpu", "memory"} {
			if n, err := document.Quantity(text).Amount(resource); err == nil && n < 0 {
				t.Errorf("%q of %s is %d", text, resource, n)
			}
		}
	})
}

func FuzzUSD(f *testing.F) {
	for _, text := range []string{"0.0336", `"12"`, "1e9", "0e0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var u, same document.USD
		if u.UnmarshalJSON([]byte(text)) != nil {
			return
		}
		if written, err := u.MarshalJSON(); err != nil || same.UnmarshalJSON(written) != nil || same != u || u < 0 {
			t.Errorf("%q reads as %d, is written %s, and reads as %d", text, int64(u), written, int64(same))
		}
	})
}

func TestInterruptionsArePerHour(t *testing.T) {
	hour, month, never := document.Fraction(100), document.Fraction(50_000), document.Fraction(0)
	for want, i := range map[int64]document.Interruption{100: {Hour: &hour}, 68: {Month: &month}, 0: {Hour: &never}} {
		if got := i.PPM(); got != want {
			t.Errorf("%+v: %d millionths an hour, want %d", i, got, want)
		}
	}
	little := document.Fraction(1)
	if got := (document.Interruption{Month: &little}).PPM(); got != 1 {
		t.Errorf("a probability above 0 is %d an hour, want at least 1", got)
	}
}
