package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"nstance.dev/server/config/jsonc"
)

const million = 1_000_000

// millionths reads a decimal number that is not negative, exactly: what is beyond millionths is
// rounded half up.
func millionths(data []byte) (int64, error) {
	text := strings.Trim(string(data), `"`)
	if len(text) > 40 || !decimal.MatchString(text) {
		return 0, fmt.Errorf("%s is not a decimal number", jsonc.Short(string(data)))
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, fmt.Errorf("%s is not a decimal number", jsonc.Short(string(data)))
	}
	value.Mul(value, big.NewRat(million, 1))
	value.Add(value, big.NewRat(1, 2))
	n := new(big.Int).Div(value.Num(), value.Denom())
	if !n.IsInt64() {
		return 0, fmt.Errorf("%s is too large", text)
	}
	return n.Int64(), nil
}

var decimal = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9])?$`)

func writeMillionths(n int64) []byte {
	text := strconv.FormatInt(n/million, 10)
	if rest := n % million; rest != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%06d", rest), "0")
	}
	return []byte(text)
}

// USD is an amount of money in millionths of a US dollar. In JSON it is a number of dollars, or
// a string with one.
type USD int64

// String gives dollars.
func (u USD) String() string { return string(writeMillionths(int64(u))) }

// MarshalJSON writes a number of dollars.
func (u USD) MarshalJSON() ([]byte, error) { return writeMillionths(int64(u)), nil }

// UnmarshalJSON reads a number of dollars.
func (u *USD) UnmarshalJSON(data []byte) error {
	n, err := millionths(data)
	if err != nil {
		return err
	}
	if n > 1e15 {
		return fmt.Errorf("%s dollars are too many", jsonc.Short(string(data)))
	}
	*u = USD(n)
	return nil
}

// Remedy says what an amount looks like.
func (USD) Remedy() string { return "write US dollars as a number, such as 0.0336" }

// Fraction is a part of a whole, in millionths. In JSON it is a number from 0 to 1.
type Fraction int64

// String gives the number of JSON.
func (f Fraction) String() string { return string(writeMillionths(int64(f))) }

// MarshalJSON writes a number from 0 to 1.
func (f Fraction) MarshalJSON() ([]byte, error) { return writeMillionths(int64(f)), nil }

// UnmarshalJSON reads a number from 0 to 1.
func (f *Fraction) UnmarshalJSON(data []byte) error {
	n, err := millionths(data)
	if err != nil {
		return err
	}
	if n > million {
		return fmt.Errorf("%s is above 1", jsonc.Short(string(data)))
	}
	*f = Fraction(n)
	return nil
}

// Remedy says what a fraction looks like.
func (Fraction) Remedy() string { return "write a number from 0 to 1, such as 0.15" }

// NodeCount is a number of machines, or a share of them.
type NodeCount struct {
	N       int  // at least 0; with Percent at most 100
	Percent bool // of those that have joined, rounded up
}

// String gives "3" or "10%".
func (c NodeCount) String() string {
	if c.Percent {
		return strconv.Itoa(c.N) + "%"
	}
	return strconv.Itoa(c.N)
}

// MarshalJSON writes a number, or a string such as "10%".
func (c NodeCount) MarshalJSON() ([]byte, error) {
	if c.Percent {
		return json.Marshal(c.String())
	}
	return json.Marshal(c.N)
}

// UnmarshalJSON reads a number, or a string such as "10%" or "3".
func (c *NodeCount) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || percent && n > 100 {
		return fmt.Errorf("%s is not a number of machines", jsonc.Short(string(data)))
	}
	*c = NodeCount{N: int(n), Percent: percent}
	return nil
}

// Remedy says what a number of machines looks like.
func (NodeCount) Remedy() string { return `write a number such as 3, or a share such as "10%"` }

// Quantity is an amount of a resource as Kubernetes writes it, such as "500m" or "2Gi". In JSON
// it may be a number.
type Quantity string

// UnmarshalJSON reads a string or a number. What the text means [Quantity.Amount] finds out.
func (q *Quantity) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] != '"' {
		if !decimal.Match(data) {
			return errors.New("not a quantity")
		}
		*q = Quantity(data)
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*q = Quantity(text)
	return nil
}

// Remedy says what a quantity looks like.
func (Quantity) Remedy() string { return QuantityRemedy }

// QuantityRemedy says what a quantity looks like.
const QuantityRemedy = `write it as Kubernetes does, such as "500m" or "2Gi"`

var (
	quantity = regexp.MustCompile(`^([0-9]{1,18}(?:\.[0-9]{1,9})?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`)
	suffixes = map[string]*big.Rat{
		"": big.NewRat(1, 1), "m": big.NewRat(1, 1000),
		"k": big.NewRat(1e3, 1), "M": big.NewRat(1e6, 1), "G": big.NewRat(1e9, 1), "T": big.NewRat(1e12, 1), "P": big.NewRat(1e15, 1), "E": big.NewRat(1e18, 1),
		"Ki": big.NewRat(1<<10, 1), "Mi": big.NewRat(1<<20, 1), "Gi": big.NewRat(1<<30, 1), "Ti": big.NewRat(1<<40, 1), "Pi": big.NewRat(1<<50, 1), "Ei": big.NewRat(1<<60, 1),
	}
)

// Amount gives the quantity of a resource: of cpu in thousandths of a core, of others in their
// own unit. A part of a unit is rounded up.
func (q Quantity) Amount(resource string) (int64, error) {
	parts := quantity.FindStringSubmatch(string(q))
	if parts == nil {
		return 0, errors.New(jsonc.Quoted(string(q)) + " is not a quantity")
	}
	value, _ := new(big.Rat).SetString(parts[1])
	value.Mul(value, suffixes[parts[2]])
	if resource == "cpu" {
		value.Mul(value, big.NewRat(1000, 1))
	}
	n, rest := new(big.Int).DivMod(value.Num(), value.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	if !n.IsInt64() {
		return 0, errors.New(jsonc.Quoted(string(q)) + " is too large")
	}
	return n.Int64(), nil
}
