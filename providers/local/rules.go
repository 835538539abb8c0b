package local

import (
	"errors"
	"fmt"
)

// CheckOption says what is wrong with one of the provider's options; see
// [ParseOptions].
func CheckOption(name string, value any) error {
	if name != "dir" && name != "agent" {
		return errors.New(`unknown option; the local provider has "dir" and "agent"`)
	}
	if text, ok := value.(string); !ok || text == "" {
		return fmt.Errorf("is %v, must be a path", value)
	}
	return nil
}
