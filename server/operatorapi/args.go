package operatorapi

import (
	"encoding/json"
	"math/big"
	"strings"
)

// argValue reads an argument as JSON, and as a plain string where it is none. A whole number
// that a float64 does not hold exactly stays text, which providers take for a number as well:
// each of its digits counts.
func argValue(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	numbers := json.NewDecoder(strings.NewReader(text))
	numbers.UseNumber()
	if numbers.Decode(&v) != nil {
		return text
	}
	return exact(v)
}

// exact has the numbers of a JSON value as float64, where that keeps what they say, and
// else as text.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		if digits, whole := new(big.Int).SetString(v.String(), 10); whole {
			if held, _ := new(big.Float).SetFloat64(f).Int(nil); held.Cmp(digits) != 0 {
				return v.String()
			}
		}
		return f
	case map[string]any:
		for key, inner := range v {
			v[key] = exact(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = exact(inner)
		}
	}
	return v
}
