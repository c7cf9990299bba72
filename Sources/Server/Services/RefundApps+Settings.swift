import AppStore
import HTTPServer
import StoreClient

extension RefundApps {
    init(_ apps: [App], _ googleApps: [GoogleApp]) {
        self.init(
            answerable: Set(apps.serverAPIKeys.keys).union(
                googleApps.filter { $0.credentials != nil }.map(\.packageName)),
            ofGoogleAlone: Set(googleApps.map(\.packageName)).subtracting(apps.map(\.bundleId)))
    }
}
