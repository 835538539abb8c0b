package instances

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"nstance.dev/providers/aws/rules"
)

// decodeArgs makes the parameters of a call from rendered arguments.
func decodeArgs(args map[string]any) (*ec2.RunInstancesInput, error) {
	parameters, err := rules.Parameters(args)
	if err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	text, err := json.Marshal(parameters)
	if err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	in := new(ec2.RunInstancesInput)
	if err := json.Unmarshal(text, in); err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	return in, nil
}
