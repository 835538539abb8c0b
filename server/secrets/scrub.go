package secrets

import (
	"bytes"
	"errors"
)

// shown is how many bytes of a secret in a row give it away.
const shown = 8

var errScrubbed = errors.New("the answer is not shown, because it repeats a part of the secret")

// Scrub returns err, or another error in its place if the text of err repeats a
// part of value: services quote in their answers what they do not accept. The
// replacement wraps kinds of err that the caller has told apart before, if any,
// and nothing else, so the text cannot come back through errors.As.
func Scrub(err error, value Secret, kinds ...error) error {
	if err == nil || !repeats(err.Error(), value) {
		return err
	}
	return errors.Join(append(kinds, errScrubbed)...)
}

func repeats(text string, value Secret) bool {
	if n := len(value); n > 0 && n < shown {
		return bytes.Contains([]byte(text), value)
	}
	for i := 0; i+shown <= len(text); i++ {
		if bytes.Contains(value, []byte(text[i:i+shown])) {
			return true
		}
	}
	return false
}
