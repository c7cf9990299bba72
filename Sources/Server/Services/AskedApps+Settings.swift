import AppStore
import Readers
import StoreClient

extension AskedApps {
    /// Those of the configured apps that are asked about.
    init(_ apps: [App], _ googleApps: [GoogleApp]) {
        let polled = apps.filter(\.isPolled)
        self.init(
            withoutReceipt: Set(polled.serverAPIKeys.keys),
            withReceipt: Set(polled.map(\.bundleId)),
            ofGooglePlay: Set(googleApps.filter { $0.polling && $0.credentials != nil }.map(\.packageName)))
    }
}
