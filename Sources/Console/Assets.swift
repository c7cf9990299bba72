/// The files that pages load, as they are in the folder Assets.
package enum Assets {
    package static let css = PackageResources.console_css
    package static let script = PackageResources.console_js
}
