package delivery

import "testing"

func TestWhatIsCurrent(t *testing.T) {
	for _, c := range []struct {
		name   string
		report Report
		file   File
		want   bool
	}{
		{"a file of the configuration in force", has("h1", env), env, true},
		{"a file of an earlier configuration", has("h0", env), env, false},
		{"a file that is not there", has("h1"), env, false},
		{"a file of which something is wrong", has("h1").with(env.Name, Status{Modified: start, Error: "no room"}), env, false},
		{"a secret", has("h1", token), token, true},
		{"a secret that has changed since", has("h1", token), File{Name: token.Name, Version: "d2"}, false},
		{"a certificate, whatever the configuration", has("h0", serial), serial, true},
		{"a certificate two thirds of whose life are over", has("h1").with(serial.Name, Status{Modified: at(-month)}), serial, false},
		{"a certificate whose key is not known", has("h1", serial), File{Name: serial.Name, Key: serial.Key, NoKey: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Ledger
			l.Heard(c.report, at(1))
			if _, got := l.Standing(all3, c.file, at(1)); got != c.want {
				t.Errorf("current is %t, want %t", got, c.want)
			}
		})
	}
}
