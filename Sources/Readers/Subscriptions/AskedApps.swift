/// The apps whose stores are asked about subscriptions at the times of the schedule.
package struct AskedApps: Sendable, Hashable {
    /// Those that are asked about with a key, by bundle id.
    package var withoutReceipt: Set<String>
    /// Those that are asked about with receipts, by bundle id; nil for all.
    package var withReceipt: Set<String>?
    /// By package name.
    package var ofGooglePlay: Set<String>

    package init(
        withoutReceipt: Set<String> = [], withReceipt: Set<String>? = nil, ofGooglePlay: Set<String> = []
    ) {
        self.withoutReceipt = withoutReceipt
        self.withReceipt = withReceipt
        self.ofGooglePlay = ofGooglePlay
    }
}
