/// What the configuration of a product does not say, although a purchase of it needs it.
///
/// The raw values are those of the column `gap` of the table `transaction`.
package enum ConfigurationGap: String, Sendable, CaseIterable {
    /// How long a purchase lasts whose store does not say it: it gives no access until the duration is configured.
    case duration
    /// The kind of a product whose type this version does not know: a purchase gives no access until it is configured.
    case kind
    /// The kind of a product that was consumed: a purchase counts as one of a consumable until it is configured.
    case consumed

    /// What is wrong, as a defect and the health say it.
    package var problem: String {
        switch self {
        case .duration: "has no configured duration, so its purchases give no access"
        case .kind: "has no configured kind, so its purchases give no access"
        case .consumed: "has no configured kind: its purchases were consumed, so they count as those of a consumable"
        }
    }
}
