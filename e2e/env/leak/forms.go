package leak

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// form is one way in which a secret is written.
type form struct {
	name string
	text string
}

// forms returns the ways in which a secret may be written, without those that are
// equal to an earlier one.
func forms(secret []byte) []form {
	all := []form{
		{"as it is", string(secret)},
		{"hex", hex.EncodeToString(secret)},
		{"hex in capitals", strings.ToUpper(hex.EncodeToString(secret))},
		{"a list of numbers", strings.Trim(fmt.Sprint(secret), "[]")},
		{"a list of numbers with commas", strings.ReplaceAll(strings.Trim(fmt.Sprint(secret), "[]"), " ", ",")},
		{"a Go string", strings.Trim(strconv.Quote(string(secret)), `"`)},
		{"an ASCII Go string", strings.Trim(strconv.QuoteToASCII(string(secret)), `"`)},
	}
	if text, err := json.Marshal(string(secret)); err == nil {
		all = append(all, form{"a JSON string", strings.Trim(string(text), `"`)})
	}
	for _, alphabet := range []struct {
		name     string
		encoding *base64.Encoding
	}{{"base64", base64.RawStdEncoding}, {"base64 for URLs", base64.RawURLEncoding}} {
		for offset := range 3 {
			all = append(all, form{fmt.Sprintf("%s, %d bytes in", alphabet.name, offset), inBase64(alphabet.encoding, secret, offset)})
		}
	}
	seen := map[string]bool{}
	distinct := all[:0]
	for _, f := range all {
		if !seen[f.text] {
			distinct = append(distinct, f)
		}
		seen[f.text] = true
	}
	return distinct
}

// inBase64 is what of the base64 of a text depends on the secret alone, if the secret
// begins offset bytes after a multiple of three in it: the digits that it shares with
// the bytes around it are cut off.
func inBase64(encoding *base64.Encoding, secret []byte, offset int) string {
	padded := append(make([]byte, offset), secret...)
	first := (8*offset + 5) / 6 // the first digit of the secret's bits only
	last := 8 * len(padded) / 6 // the digit after the last such
	return encoding.EncodeToString(padded)[first:last]
}
