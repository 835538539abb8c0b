package secrets

import (
	"fmt"
	"io"
	"log/slog"
)

// mask is how a secret looks wherever it is printed. It does not tell the
// length, nor whether there is anything.
const mask = "[secret]"

// Secret is a value that must not be seen. Logged, formatted with any verb or
// marshalled as text or JSON it shows a mask; []byte(s) is the value itself.
type Secret []byte

// String returns the mask.
func (Secret) String() string { return mask }

// GoString returns the mask.
func (Secret) GoString() string { return mask }

// Format writes the mask, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }

// LogValue returns the mask.
func (Secret) LogValue() slog.Value { return slog.StringValue(mask) }

// MarshalText returns the mask.
func (Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }

// MarshalJSON returns the mask as a JSON string.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + mask + `"`), nil }
