package document_test

import (
	"encoding/json"
	"testing"
	"time"

	"nstance.dev/server/config/document"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"90s"`: 90 * time.Second, `"1h30m"`: 90 * time.Minute, `"7d"`: 7 * 24 * time.Hour, `"0s"`: 0, `0`: 0, `"0d"`: 0,
	} {
		var d document.Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil || d.Std() != want {
			t.Errorf("%s = %v, %v", text, d, err)
		}
		back, err := json.Marshal(d)
		var again document.Duration
		if err != nil || json.Unmarshal(back, &again) != nil || again != d {
			t.Errorf("%s came back as %s, %v", text, back, again)
		}
	}
	for _, text := range []string{`"1.5d"`, `"-1s"`, `"-1d"`, `""`, `"d"`, `"1h2d"`, `60`, `"9999999999d"`, `true`, `null`} {
		var d document.Duration
		if err := d.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s = %v, want an error", text, d)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, text := range []string{`"101%"`, `"-1%"`, `"10"`, `10`, `"1.5%"`, `"%"`, `""`} {
		var p document.Percent
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s = %v, want an error", text, p)
		}
	}
	var p document.Percent
	if err := json.Unmarshal([]byte(`"25%"`), &p); err != nil || p.Of(10) != 2 || p.String() != "25%" {
		t.Errorf("25%% = %v, %v", p, err)
	}
}

func TestUserdata_Decode(t *testing.T) {
	const zipped = "H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA=="
	for name, c := range map[string]struct {
		encoding, raw string
		ok            bool
	}{
		"plain":            {"", "hello", true},
		"base64":           {document.EncodingBase64, "aGVs\n bG8=", true},
		"broken base64":    {document.EncodingBase64, "aGVs%", false},
		"broken gzip":      {document.EncodingGzip, "hello", false},
		"not zipped":       {document.EncodingBase64Gzip, "aGVsbG8=", false},
		"unknown encoding": {"rot13", "hello", false},
		"NUL":              {"", "a\x00", false},
		"not UTF-8":        {"", "\xff", false},
		"cut off":          {document.EncodingBase64Gzip, zipped[:24], false},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := document.Userdata{Encoding: c.encoding}.Decode([]byte(c.raw))
			if (err == nil) != c.ok || (c.ok && text != "hello") {
				t.Errorf("Decode = %q, %v", text, err)
			}
		})
	}
}
