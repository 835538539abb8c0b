package document

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// MaxUserdata is how long user data may be, in bytes, before and after it is
// rendered. Providers have narrower limits of their own.
const MaxUserdata = 1 << 20

// ErrUserdataTooLarge says that user data is longer than [MaxUserdata].
var ErrUserdataTooLarge = fmt.Errorf("larger than %d bytes", MaxUserdata)

// Decode gives the template text that raw holds: raw is Content, or what was
// fetched from there. Zero fields of u count as their defaults.
func (u Userdata) Decode(raw []byte) (string, error) {
	var err error
	switch u.Encoding {
	case "", EncodingPlain:
	case EncodingBase64:
		raw, err = decodeBase64(raw)
	case EncodingGzip:
		raw, err = gunzip(raw)
	case EncodingBase64Gzip:
		if raw, err = decodeBase64(raw); err == nil {
			raw, err = gunzip(raw)
		}
	default:
		err = fmt.Errorf("unknown encoding %q", u.Encoding)
	}
	switch {
	case err != nil:
		return "", err
	case len(raw) > MaxUserdata:
		return "", ErrUserdataTooLarge
	case bytes.IndexByte(raw, 0) >= 0:
		return "", errors.New("contains a NUL")
	case !utf8.Valid(raw):
		return "", errors.New("not UTF-8")
	}
	return string(raw), nil
}

func decodeBase64(raw []byte) ([]byte, error) {
	// People wrap long lines.
	text := strings.Join(strings.Fields(string(raw)), "")
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("not base64")
	}
	return decoded, nil
}

func gunzip(raw []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("not gzip")
	}
	decoded, err := io.ReadAll(io.LimitReader(r, MaxUserdata+1))
	if err != nil {
		return nil, errors.New("not gzip")
	}
	return decoded, nil
}
