package plan

import "fmt"

// SettingError says that a setting has a value with which there is no plan.
type SettingError struct {
	Setting string // as the flag is called, like "stripe-size"
	Value   string // what was given
	Reason  string // which limit it breaks
	Remedy  string // what to give instead
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("%s of %s: %s", e.Setting, e.Value, e.Reason)
}

// Hint returns the remedy.
func (e *SettingError) Hint() string { return e.Remedy }

func badSetting(setting string, value any, reason, remedy string) error {
	return &SettingError{Setting: setting, Value: fmt.Sprint(value), Reason: reason, Remedy: remedy}
}
