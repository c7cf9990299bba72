import ArgumentParser
import Foundation
import Simulation

/// The stores of a run.
enum SimulatedStores: String, CaseIterable, ExpressibleByArgument {
    case apple, google, both
}

/// The options of `simulate` that concern Google Play.
struct PlayFlags: ParsableArguments {
    @Option(help: ArgumentHelp("The app's package name. [the bundle ID]", valueName: "name"))
    var packageName: String?

    @Option(
        help: ArgumentHelp(
            "When Google Play is served, write the key file of a service account for its API here.",
            valueName: "file"))
    var writeServiceAccount: String?

    @Option(
        help: ArgumentHelp(
            "Write the public key of the app's purchases here, base64 as in the Play Console.", valueName: "file"))
    var writeLicenseKey: String?

    @Option(
        help: ArgumentHelp(
            """
            Write the purchases that apps hand in here, in the order of time, one JSON object per line. Their \
            signatures belong to the key of --write-license-key of the same command.
            """, valueName: "file"))
    var writePurchases: String?

    @Option(
        help: ArgumentHelp(
            """
            Google Play pushes its messages to this URL when its clock passes them, and again until they are \
            acknowledged. Its clock then starts before all stories. --lose, --duplicate, --order and --connections apply.
            """, valueName: "url"))
    var googleNotifications: String?

    @Option(
        help: ArgumentHelp("The audience of push tokens. [the URL of --google-notifications]", valueName: "text"))
    var pushAudience: String?

    @Flag(
        help: """
            Leave it to the server to acknowledge purchases: one that is not acknowledged within three days is revoked.
            """)
    var serverAcknowledges = false

    @Option(
        help: ArgumentHelp(
            "In a run in step, what is down for a day that the seed determines: store (the API of Google Play) or server.",
            valueName: "part"))
    var outage: Outage?

    enum Outage: String, CaseIterable, ExpressibleByArgument {
        case store, server
    }

    /// Whether an option was given.
    var isUsed: Bool {
        let texts = [
            packageName, writeServiceAccount, writeLicenseKey, writePurchases, googleNotifications, pushAudience,
        ]
        return serverAcknowledges || outage != nil || texts.contains { $0 != nil }
    }

    func validate() throws {
        guard let googleNotifications else {
            guard pushAudience == nil else {
                throw ValidationError("--push-audience requires --google-notifications.")
            }
            return
        }
        guard let url = URL(string: googleNotifications), ["http", "https"].contains(url.scheme), url.host != nil else {
            throw ValidationError("invalid URL \"\(googleNotifications)\": expected an http or https URL.")
        }
    }
}
